// The answers of GetModelInfo, ListModels and GetServerInfo.
#ifndef BOLE_SCHEDULER_SERVICE_DOOR_MESSAGES_INFO_CODEC_H_
#define BOLE_SCHEDULER_SERVICE_DOOR_MESSAGES_INFO_CODEC_H_

#include "proto/bole.pb.h"
#include "scheduler_service/door/asked_models.h"
#include "scheduler_service/watch/scheduler_status.h"

namespace bole {

// For a model that has never had a worker, only the fields that do not depend
// on a worker are set.
v1::GetModelInfoResponse EncodeModelInfo(const AskedModel& model);

// Leaves out version, uptime and draining, which describe the process.
v1::GetServerInfoResponse EncodeServerInfo(const SchedulerStatus& status);

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_DOOR_MESSAGES_INFO_CODEC_H_
