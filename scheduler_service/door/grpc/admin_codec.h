// What Admin answers.
#ifndef BOLE_SCHEDULER_SERVICE_DOOR_GRPC_ADMIN_CODEC_H_
#define BOLE_SCHEDULER_SERVICE_DOOR_GRPC_ADMIN_CODEC_H_

#include "proto/bole.pb.h"
#include "scheduler_service/watch/scheduler_status.h"

namespace bole {

v1::ListWorkersResponse EncodeWorkers(const SchedulerStatus& status);
v1::GetLoadResponse EncodeLoad(const SchedulerStatus& status);
// A problem for each worker that has one, or else that of the scheduler.
v1::AuditResponse EncodeAudit(const SchedulerStatus& status);

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_DOOR_GRPC_ADMIN_CODEC_H_
