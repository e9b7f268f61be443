// A unary call whose message takes long to answer.
#ifndef BOLE_SCHEDULER_SERVICE_TEXT_CALL_H_
#define BOLE_SCHEDULER_SERVICE_TEXT_CALL_H_

#include <functional>
#include <optional>

#include "absl/status/status.h"
#include "grpcpp/support/server_callback.h"
#include "scheduler_service/door_metrics.h"
#include "scheduler_service/refusal.h"
#include "scheduler_service/task_pool.h"

namespace bole {

// Waits for its turn in a pool. If the client cancels before that, the call
// ends at once and does not run.
//
// Belongs to gRPC, which destroys it at its end.
class TextCall final : public grpc::ServerUnaryReactor {
 public:
  // `answer` runs on a thread of `pool`; it fills the response and returns the
  // call's status, with its reason if it refuses. If too many wait there, the
  // call ends with RESOURCE_EXHAUSTED. For the handler of the call, which
  // returns the result.
  static grpc::ServerUnaryReactor* Start(grpc::CallbackServerContext& context,
                                         TaskPool& pool, DoorMetrics& metrics,
                                         std::function<absl::Status()> answer);

  void OnCancel() override;
  void OnDone() override { delete this; }

 private:
  TextCall(TaskPool& pool, DoorMetrics& metrics)
      : pool_(pool), metrics_(metrics) {}

  // Counts a status that refuses, and ends the call.
  void End(const absl::Status& status);

  TaskPool& pool_;
  DoorMetrics& metrics_;
  // gRPC calls OnCancel() only after the handler has returned.
  std::optional<TaskPool::Ticket> ticket_;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_TEXT_CALL_H_
