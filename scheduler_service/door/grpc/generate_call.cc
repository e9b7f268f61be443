#include "scheduler_service/door/grpc/generate_call.h"

#include <chrono>
#include <string>
#include <utility>

#include "grpc/grpc.h"
#include "grpcpp/server_context.h"
#include "proto/grpc_status.h"
#include "scheduler_service/door/grpc/refusal_status.h"

namespace bole {
namespace {

using std::chrono::steady_clock;
using std::chrono::system_clock;

// When the client gives up, on the loop's clock.
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
    grpc::CallbackServerContext& context, const GenerateCallContext& shared) {
  std::shared_ptr<GenerateCall> call(new GenerateCall(context, shared));
  shared.door.open_calls().Add(call);
  return call;
}

GenerateCall::GenerateCall(grpc::CallbackServerContext& context,
                           const GenerateCallContext& shared)
    : context_(context),
      shared_(shared),
      arrival_(steady_clock::now()),
      deadline_(DeadlineOf(context, arrival_)) {}

bool GenerateCall::ReadLater(TaskPool& pool, std::function<void()> read) {
  MutexLock lock(mutex_);
  const std::optional<TaskPool::Ticket> ticket = pool.Post(std::move(read));
  if (ticket) reading_ = {.pool = &pool, .ticket = *ticket};
  return ticket.has_value();
}

std::optional<Refusal> GenerateCall::Submit(std::unique_ptr<Request> request,
                                            bool complete_only) {
  const std::shared_ptr<ResponseWriter> writer = ResponseWriter::Create(
      *request,
      {.complete_only = complete_only,
       .stream = shared_.stream_limits,
       .on_fault = [&metrics = shared_.door.metrics()](
                       ReaderFault fault) { metrics.ReaderEnded(fault); }},
      weak_from_this(), shared_.delivery);
  request->arrival = arrival_;
  request->deadline = deadline_;
  request->stream = writer->stream();
  {
    MutexLock lock(mutex_);
    if (cancelled_) return CancelledRefusal();
    writer_ = writer;
  }
  std::optional<Refusal> refusal = shared_.door.Submit(request);
  if (!refusal) writer->Start();
  return refusal;
}

void GenerateCall::Refuse(const Refusal& refusal) {
  shared_.door.metrics().Refused(refusal.reason);
  Finish(ToGrpcStatus(refusal));
}

bool GenerateCall::cancelled() const {
  MutexLock lock(mutex_);
  return cancelled_;
}

std::shared_ptr<ResponseWriter> GenerateCall::writer() const {
  MutexLock lock(mutex_);
  return writer_;
}

void GenerateCall::OnWriteDone(bool ok) { writer()->OnWriteDone(ok); }

void GenerateCall::OnCancel() {
  std::shared_ptr<ResponseWriter> writer;
  std::optional<Reading> reading;
  {
    MutexLock lock(mutex_);
    cancelled_ = true;
    writer = writer_;
    reading = reading_;
  }
  if (reading && reading->pool->Withdraw(reading->ticket)) {
    Refuse(CancelledRefusal());
    return;
  }
  if (writer == nullptr) return;
  // gRPC cancels a call at its deadline as well. The loop knows that by itself,
  // and calls it by its name.
  constexpr std::chrono::milliseconds kRounding(20);
  writer->OnCancel(/*overdue=*/steady_clock::now() + kRounding >= deadline_);
}

void GenerateCall::OnDone() {
  {
    MutexLock lock(mutex_);
    done_ = true;
  }
  // Ends the life of this object, unless somebody else still holds it.
  const std::shared_ptr<WatchedCall> self =
      shared_.door.open_calls().Remove(*this);
}

HeldOutput GenerateCall::held() const {
  const std::shared_ptr<ResponseWriter> writer = this->writer();
  return writer != nullptr ? writer->held() : HeldOutput();
}

void GenerateCall::EndForReader(ReaderFault fault) {
  const std::shared_ptr<ResponseWriter> writer = this->writer();
  if (writer != nullptr) writer->EndForReader(fault);
}

void GenerateCall::Send(const v1::GenerateResponse& response) {
  StartWrite(&response);
}

void GenerateCall::SendLast(const v1::GenerateResponse& response) {
  StartWriteAndFinish(&response, grpc::WriteOptions(), grpc::Status::OK);
}

void GenerateCall::End(const absl::Status& status) {
  Finish(ToGrpcStatus(status, /*usage=*/std::nullopt));
}

bool GenerateCall::Break(const absl::Status& why) {
  // A status that is sent in the usual way waits behind the message that the
  // client does not take. One that cancels the call does not: the transport
  // writes it at once and resets the stream. It has no room for the details of
  // an error: the client gets code and message alone.
  MutexLock lock(mutex_);
  if (done_) return false;
  const grpc::Status status = ToGrpcStatus(why);
  grpc_call_cancel_with_status(
      context_.c_call(), static_cast<grpc_status_code>(status.error_code()),
      status.error_message().c_str(), nullptr);
  return true;
}

}  // namespace bole
