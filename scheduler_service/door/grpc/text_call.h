// A unary call whose message takes long to answer.
#ifndef BOLE_SCHEDULER_SERVICE_DOOR_GRPC_TEXT_CALL_H_
#define BOLE_SCHEDULER_SERVICE_DOOR_GRPC_TEXT_CALL_H_

#include <functional>
#include <optional>

#include "absl/status/status.h"
#include "grpcpp/support/server_callback.h"
#include "scheduler_service/door/front_door.h"
#include "scheduler_service/door/task_pool.h"
#include "scheduler_service/jobs/refusal.h"

namespace bole {

// Waits for its turn among the long texts of the door. If the client cancels
// before that, the call ends at once and does not run.
//
// gRPC owns it and destroys it at its end.
class TextCall final : public grpc::ServerUnaryReactor {
 public:
  // `answer` runs on a thread of the door, unless the door drains before its
  // turn; it fills the response, or returns why it cannot. If too many calls
  // wait there, this one is refused. The handler of the call returns the result
  // to gRPC.
  static grpc::ServerUnaryReactor* Start(FrontDoor& door,
                                         std::function<absl::Status()> answer);

  void OnCancel() override;
  void OnDone() override { delete this; }

 private:
  explicit TextCall(FrontDoor& door) : door_(door) {}

  void Run(const std::function<absl::Status()>& answer);
  // Counts the refusal, and ends the call.
  void Refuse(const Refusal& refusal);

  FrontDoor& door_;
  // gRPC calls OnCancel() only after the handler has returned.
  std::optional<TaskPool::Ticket> ticket_;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_DOOR_GRPC_TEXT_CALL_H_
