// What GetModelInfo and GetServerInfo answer.
#ifndef BOLE_SCHEDULER_SERVICE_DOOR_GRPC_INFO_CODEC_H_
#define BOLE_SCHEDULER_SERVICE_DOOR_GRPC_INFO_CODEC_H_

#include "proto/bole.pb.h"
#include "scheduler_service/jobs/admission.h"
#include "scheduler_service/links/worker_client.h"
#include "scheduler_service/models/model_text.h"
#include "scheduler_service/watch/scheduler_status.h"

namespace bole {

v1::GetModelInfoResponse EncodeModelInfo(const ModelText& text,
                                         const WorkerDescription& worker);

// Without version, uptime and draining, which are the process's.
v1::GetServerInfoResponse EncodeServerInfo(const SchedulerStatus& status,
                                           const AdmissionLoad& waiting);

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_DOOR_GRPC_INFO_CODEC_H_
