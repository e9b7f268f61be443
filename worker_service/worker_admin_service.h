// bole.v1.Admin of a worker: its last rounds.
#ifndef BOLE_WORKER_SERVICE_WORKER_ADMIN_SERVICE_H_
#define BOLE_WORKER_SERVICE_WORKER_ADMIN_SERVICE_H_

#include "common/flight/flight_recorder.h"
#include "grpcpp/support/server_callback.h"
#include "proto/bole.grpc.pb.h"

namespace bole {

// Answers DumpRounds, so that `bole debug dump --server` may name a worker; the
// other methods, which ask for what a scheduler knows, are UNIMPLEMENTED.
// Whoever reaches the worker's address may ask. Thread-safe.
class WorkerAdminService final : public v1::Admin::CallbackService {
 public:
  // `rounds`, of StepFields(), must outlive the service; null: there are none.
  explicit WorkerAdminService(const FlightRecorder* rounds) : rounds_(rounds) {}

  grpc::ServerUnaryReactor* DumpRounds(
      grpc::CallbackServerContext* context,
      const v1::DumpRoundsRequest* request,
      v1::DumpRoundsResponse* response) override;

 private:
  const FlightRecorder* const rounds_;
};

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_WORKER_ADMIN_SERVICE_H_
