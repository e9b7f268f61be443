#include "scheduler_service/door/grpc/generate_call.h"

#include <chrono>

#include "grpc/grpc.h"
#include "grpcpp/server_context.h"
#include "proto/grpc_status.h"
#include "scheduler_service/door/grpc/refusal_status.h"

namespace bole {
namespace {

using std::chrono::steady_clock;
using std::chrono::system_clock;

// The time at which the client gives up, on the loop's clock.
TimePoint DeadlineOf(const grpc::CallbackServerContext& context,
                     TimePoint now) {
  const system_clock::time_point deadline = context.deadline();
  if (deadline == system_clock::time_point::max()) return TimePoint::max();
  const auto left = deadline - system_clock::now();
  if (left > std::chrono::hours(24 * 365)) return TimePoint::max();
  return now + std::chrono::duration_cast<steady_clock::duration>(left);
}

}  // namespace

std::shared_ptr<GenerateCall> GenerateCall::Create(
    grpc::CallbackServerContext& context, FrontDoor& door,
    HandledCalls& handled) {
  std::shared_ptr<GenerateCall> call(
      new GenerateCall(context, door, handled, steady_clock::now()));
  door.open_calls().Add(call);
  return call;
}

GenerateCall::GenerateCall(grpc::CallbackServerContext& context,
                           FrontDoor& door, HandledCalls& handled,
                           TimePoint now)
    : ServedCall(door, now, DeadlineOf(context, now)),
      context_(context),
      handled_(handled) {}

void GenerateCall::EndWith(const grpc::Status& status) {
  // This object may be gone after Finish().
  handled_.Count(kMethod, status.error_code());
  Finish(status);
}

void GenerateCall::EndRefused(const Refusal& refusal) {
  EndWith(ToGrpcStatus(refusal));
}

void GenerateCall::OnDone() {
  {
    MutexLock lock(mutex_);
    done_ = true;
  }
  // Ends the life of this object, unless somebody else still holds it.
  const std::shared_ptr<WatchedCall> self = door().open_calls().Remove(*this);
}

void GenerateCall::Send(const v1::GenerateResponse& response) {
  StartWrite(&response);
}

void GenerateCall::SendLast(const v1::GenerateResponse& response) {
  handled_.Count(kMethod, grpc::StatusCode::OK);
  StartWriteAndFinish(&response, grpc::WriteOptions(), grpc::Status::OK);
}

void GenerateCall::End(const absl::Status& status, const v1::Usage& usage) {
  EndWith(ToGrpcStatus(status, usage));
}

bool GenerateCall::Break(const absl::Status& why) {
  // A status that is sent in the usual way is queued after the message that the
  // client does not take. One that cancels the call is not: the transport
  // writes it at once and resets the stream. It has no room for the details of
  // an error: the client gets only the code and the message.
  MutexLock lock(mutex_);
  if (done_) return false;
  const grpc::Status status = ToGrpcStatus(why);
  grpc_call_cancel_with_status(
      context_.c_call(), static_cast<grpc_status_code>(status.error_code()),
      status.error_message().c_str(), nullptr);
  return true;
}

}  // namespace bole
