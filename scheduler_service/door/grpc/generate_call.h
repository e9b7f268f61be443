// One Generate call.
#ifndef BOLE_SCHEDULER_SERVICE_DOOR_GRPC_GENERATE_CALL_H_
#define BOLE_SCHEDULER_SERVICE_DOOR_GRPC_GENERATE_CALL_H_

#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/mutex.h"
#include "common/net/handled_calls.h"
#include "grpcpp/support/server_callback.h"
#include "proto/bole.pb.h"
#include "scheduler_service/door/front_door.h"
#include "scheduler_service/door/messages/served_call.h"
#include "scheduler_service/jobs/refusal.h"
#include "scheduler_service/jobs/request.h"

namespace bole {

// gRPC owns its message until the call ends.
//
// Owned by OpenCalls until gRPC is done with it. Thread-safe.
class GenerateCall final
    : public grpc::ServerWriteReactor<v1::GenerateResponse>,
      public ServedCall {
 public:
  // Its full name.
  static constexpr char kMethod[] = "/bole.v1.BoleService/Generate";

  // `handled` counts the call when it ends.
  static std::shared_ptr<GenerateCall> Create(
      grpc::CallbackServerContext& context, FrontDoor& door,
      HandledCalls& handled);

  void OnWriteDone(bool ok) override { EndWrite(ok); }
  void OnCancel() override { Cancel(); }
  void OnDone() override;

  void Send(const v1::GenerateResponse& response) override;
  void SendLast(const v1::GenerateResponse& response) override;
  void End(const absl::Status& status, const v1::Usage& usage) override;
  bool Break(const absl::Status& why) override;

 private:
  GenerateCall(grpc::CallbackServerContext& context, FrontDoor& door,
               HandledCalls& handled, TimePoint now);

  void EndRefused(const Refusal& refusal) override;
  void EndWith(const grpc::Status& status);

  grpc::CallbackServerContext& context_;
  HandledCalls& handled_;

  Mutex mutex_;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;  // The context may be gone.
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_DOOR_GRPC_GENERATE_CALL_H_
