// The service bole.v1.Admin of a worker: its last rounds.
#ifndef BOLE_WORKER_SERVICE_SERVING_WORKER_ADMIN_SERVICE_H_
#define BOLE_WORKER_SERVICE_SERVING_WORKER_ADMIN_SERVICE_H_

#include "common/flight/flight_recorder.h"
#include "grpcpp/support/server_callback.h"
#include "proto/bole.grpc.pb.h"

namespace bole {

// Answers DumpRounds, so that `bole debug dump --server` also works for a
// worker. The other methods, which are about a scheduler's state, are
// UNIMPLEMENTED. Anyone who can reach the worker's address may call it.
// Thread-safe.
class WorkerAdminService final : public v1::Admin::CallbackService {
 public:
  // `rounds`, whose fields are StepFields(), must outlive the service; null:
  // there are none.
  explicit WorkerAdminService(const FlightRecorder* rounds) : rounds_(rounds) {}

  grpc::ServerUnaryReactor* DumpRounds(
      grpc::CallbackServerContext* context,
      const v1::DumpRoundsRequest* request,
      v1::DumpRoundsResponse* response) override;

 private:
  const FlightRecorder* const rounds_;
};

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_SERVING_WORKER_ADMIN_SERVICE_H_
