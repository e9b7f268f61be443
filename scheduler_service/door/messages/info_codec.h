// What GetModelInfo, ListModels and GetServerInfo answer.
#ifndef BOLE_SCHEDULER_SERVICE_DOOR_MESSAGES_INFO_CODEC_H_
#define BOLE_SCHEDULER_SERVICE_DOOR_MESSAGES_INFO_CODEC_H_

#include "proto/bole.pb.h"
#include "scheduler_service/door/asked_models.h"
#include "scheduler_service/watch/scheduler_status.h"

namespace bole {

// Of a model that has had no worker only what its text side tells.
v1::GetModelInfoResponse EncodeModelInfo(const AskedModel& model);

// Without version, uptime and draining, which are the process's.
v1::GetServerInfoResponse EncodeServerInfo(const SchedulerStatus& status);

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_DOOR_MESSAGES_INFO_CODEC_H_
