// bole.v1.Admin: the service for those who run the server.
#ifndef BOLE_SCHEDULER_SERVICE_DOOR_GRPC_ADMIN_SERVICE_H_
#define BOLE_SCHEDULER_SERVICE_DOOR_GRPC_ADMIN_SERVICE_H_

#include "common/flight/flight_recorder.h"
#include "grpcpp/support/server_callback.h"
#include "proto/bole.grpc.pb.h"
#include "scheduler_service/scheduler_loop.h"

namespace bole {

// Reports the loop's status after its latest round, and its last rounds.
// Thread-safe.
class AdminService final : public v1::Admin::CallbackService {
 public:
  // `loop`, and `rounds`, which may be null, must outlive the service, which
  // only reads them.
  AdminService(const SchedulerLoop& loop, const FlightRecorder* rounds)
      : loop_(loop), rounds_(rounds) {}

  grpc::ServerUnaryReactor* ListWorkers(
      grpc::CallbackServerContext* context,
      const v1::ListWorkersRequest* request,
      v1::ListWorkersResponse* response) override;
  grpc::ServerUnaryReactor* GetLoad(grpc::CallbackServerContext* context,
                                    const v1::GetLoadRequest* request,
                                    v1::GetLoadResponse* response) override;
  grpc::ServerUnaryReactor* Audit(grpc::CallbackServerContext* context,
                                  const v1::AuditRequest* request,
                                  v1::AuditResponse* response) override;
  grpc::ServerUnaryReactor* DumpRounds(
      grpc::CallbackServerContext* context,
      const v1::DumpRoundsRequest* request,
      v1::DumpRoundsResponse* response) override;

 private:
  const SchedulerLoop& loop_;
  const FlightRecorder* const rounds_;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_DOOR_GRPC_ADMIN_SERVICE_H_
