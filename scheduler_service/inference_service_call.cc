#include "scheduler_service/inference_service_call.h"

#include <chrono>
#include <string>
#include <utility>

#include "grpcpp/server_context.h"
#include "proto/grpc_status.h"

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
    grpc::CallbackServerContext& context, SchedulerLoop& loop,
    std::atomic<size_t>& num_open) {
  std::shared_ptr<GenerateCall> call(new GenerateCall(context, loop, num_open));
  call->self_ = call;
  return call;
}

GenerateCall::GenerateCall(grpc::CallbackServerContext& context,
                           SchedulerLoop& loop, std::atomic<size_t>& num_open)
    : context_(context),
      loop_(loop),
      num_open_(num_open),
      arrival_(steady_clock::now()),
      deadline_(DeadlineOf(context, arrival_)) {
  ++num_open_;
}

absl::Status GenerateCall::Submit(std::unique_ptr<Request> request,
                                  bool complete_only) {
  auto stream = std::make_shared<TokenStream>([weak = weak_from_this()] {
    if (const std::shared_ptr<GenerateCall> call = weak.lock()) call->Pump();
  });
  request->arrival = arrival_;
  request->deadline = deadline_;
  request->stream = stream;
  {
    MutexLock lock(mutex_);
    if (cancelled_) return absl::CancelledError("the client cancelled");
    stream_ = std::move(stream);
    complete_only_ = complete_only;
    encoder_.emplace(*request);
  }
  absl::Status submitted = loop_.Submit(request);
  if (!submitted.ok()) return submitted;
  {
    MutexLock lock(mutex_);
    busy_ = false;
    if (cancelled_) Abandon();
  }
  Pump();
  return absl::OkStatus();
}

void GenerateCall::Refuse(const absl::Status& why,
                          std::optional<int> retry_after_ms) {
  if (retry_after_ms) {
    context_.AddTrailingMetadata("retry-after-ms",
                                 std::to_string(*retry_after_ms));
  }
  MutexLock lock(mutex_);
  finished_ = true;
  Finish(ToGrpcStatus(why));
}

void GenerateCall::Pump() {
  MutexLock lock(mutex_);
  if (busy_ || finished_) return;
  if (!end_) {
    TokenDelta delta = stream_->Take();
    end_ = std::move(delta.end);
    if (!delta.tokens.empty() || !delta.text.empty()) {
      response_ = encoder_->Add(delta);
      if (!complete_only_) {
        busy_ = true;
        StartWrite(&response_);
        return;
      }
    }
  }
  if (end_) End();
}

void GenerateCall::End() {
  finished_ = true;
  if (!end_->ok()) {
    Finish(ToGrpcStatus(end_->status()));
    return;
  }
  response_ = encoder_->Complete(**end_);
  StartWriteAndFinish(&response_, grpc::WriteOptions(), grpc::Status::OK);
}

void GenerateCall::Abandon() {
  if (busy_ || finished_) return;
  finished_ = true;
  Finish(grpc::Status::CANCELLED);
}

void GenerateCall::OnWriteDone(bool ok) {
  {
    MutexLock lock(mutex_);
    busy_ = false;
    // The cancellation that broke the write is on its way.
    if (!ok) cancelled_ = true;
    if (cancelled_) Abandon();
  }
  Pump();
}

void GenerateCall::OnCancel() {
  // gRPC cancels a call at its deadline as well. The loop knows that by itself,
  // and calls it by its name.
  constexpr std::chrono::milliseconds kRounding(20);
  const bool overdue = steady_clock::now() + kRounding >= deadline_;
  {
    MutexLock lock(mutex_);
    cancelled_ = true;
    if (stream_ != nullptr && !overdue) stream_->Cancel();
    Abandon();
  }
  loop_.Wake();
}

bool GenerateCall::cancelled() const {
  MutexLock lock(mutex_);
  return cancelled_;
}

void GenerateCall::OnDone() {
  --num_open_;
  const std::shared_ptr<GenerateCall> self = std::move(self_);
}

}  // namespace bole
