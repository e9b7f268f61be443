// Encodes the answers of Admin.
#ifndef BOLE_SCHEDULER_SERVICE_DOOR_GRPC_ADMIN_CODEC_H_
#define BOLE_SCHEDULER_SERVICE_DOOR_GRPC_ADMIN_CODEC_H_

#include "proto/bole.pb.h"
#include "scheduler_service/watch/scheduler_status.h"

namespace bole {

v1::ListWorkersResponse EncodeWorkers(const SchedulerStatus& status);
v1::GetLoadResponse EncodeLoad(const SchedulerStatus& status);
// One problem for each worker that has one; if none has, that of the scheduler.
v1::AuditResponse EncodeAudit(const SchedulerStatus& status);

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_DOOR_GRPC_ADMIN_CODEC_H_
