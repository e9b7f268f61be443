#include "worker_service/worker_service_stream.h"

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "proto/grpc_status.h"
#include "proto/step_codec.h"

namespace bole {
namespace {

namespace wire = worker::v1;

wire::ExecuteResponse Encode(const ComputeOutcome& outcome) {
  wire::ExecuteResponse response;
  response.set_epoch(outcome.epoch);
  wire::StepOutcome& message = *response.mutable_outcome();
  message.set_sequence(outcome.sequence);
  message.set_step_us(static_cast<uint32_t>(outcome.step_seconds * 1e6));
  if (outcome.result.ok()) {
    EncodeResult(*outcome.result, *message.mutable_result());
  } else {
    const grpc::Status status = ToGrpcStatus(outcome.result.status());
    message.mutable_refusal()->set_code(status.error_code());
    message.mutable_refusal()->set_message(status.error_message());
  }
  return response;
}

}  // namespace

ExecuteStream::ExecuteStream(Owner& owner) : owner_(owner) {
  StartRead(&request_);
}

void ExecuteStream::SendOpened(std::chrono::milliseconds heartbeat_interval) {
  MutexLock lock(mutex_);
  wire::ExecuteResponse response;
  response.set_epoch(epoch_);
  response.mutable_opened()->set_heartbeat_interval_ms(
      static_cast<uint32_t>(heartbeat_interval.count()));
  Send(std::move(response));
}

void ExecuteStream::SendHeartbeat(bool draining) {
  MutexLock lock(mutex_);
  if (heartbeat_waits_) return;
  heartbeat_waits_ = true;
  wire::ExecuteResponse response;
  response.set_epoch(epoch_);
  response.mutable_heartbeat()->set_last_sequence(last_sequence_);
  response.mutable_heartbeat()->set_draining(draining);
  Send(std::move(response));
}

void ExecuteStream::Answer(const ComputeOutcome& outcome) {
  wire::ExecuteResponse response = Encode(outcome);
  MutexLock lock(mutex_);
  last_sequence_ = outcome.sequence;
  if (outcome.is_last()) --unanswered_;
  Send(std::move(response));
  if (!outcome.is_last() || !reading_paused_ || ended_) return;
  reading_paused_ = false;
  StartRead(&request_);
}

void ExecuteStream::End(const absl::Status& status) {
  MutexLock lock(mutex_);
  if (ended_) return;
  ended_ = true;
  Finish(ToGrpcStatus(status));
}

uint64_t ExecuteStream::epoch() const {
  MutexLock lock(mutex_);
  return epoch_;
}

// `ok` is false as well for bytes that are no message, which cannot be told
// from a client that has nothing more to say.
void ExecuteStream::OnReadDone(bool ok) {
  if (!ok) {
    End(absl::OkStatus());
    return;
  }
  const absl::Status status = opened_ ? TakePlan() : TakeOpening();
  if (!status.ok()) {
    End(status);
    return;
  }
  ReadOrPause();
}

void ExecuteStream::ReadOrPause() {
  MutexLock lock(mutex_);
  if (ended_) return;
  if (unanswered_ >= ComputeLoop::kMaxWaiting) {
    reading_paused_ = true;
  } else {
    StartRead(&request_);
  }
}

absl::Status ExecuteStream::TakeOpening() {
  if (request_.has_plan() || request_.sequence() != 0) {
    owner_.OnMalformed();
    return absl::InvalidArgumentError(absl::StrCat(
        "the first request has ", request_.has_plan() ? "a" : "no",
        " plan and sequence ", request_.sequence(), ", not an epoch alone"));
  }
  opened_ = true;
  {
    MutexLock lock(mutex_);
    epoch_ = request_.epoch();
  }
  return owner_.OnOpen(*this, request_.epoch());
}

absl::Status ExecuteStream::TakePlan() {
  absl::StatusOr<StepPlan> plan;
  if (request_.epoch() != epoch()) {
    plan = absl::InvalidArgumentError(absl::StrCat(
        "epoch is ", request_.epoch(), ", the stream's is ", epoch()));
  } else if (request_.sequence() != next_sequence_) {
    plan = absl::InvalidArgumentError(absl::StrCat(
        "sequence is ", request_.sequence(), ", not ", next_sequence_));
  } else if (!request_.has_plan()) {
    plan = absl::InvalidArgumentError(
        absl::StrCat("request ", next_sequence_, " has no plan"));
  } else {
    plan = DecodePlan(request_.plan());
  }
  if (!plan.ok()) {
    owner_.OnMalformed();
    return plan.status();
  }
  ++next_sequence_;
  {
    MutexLock lock(mutex_);
    ++unanswered_;
  }
  return owner_.OnPlan(request_.epoch(), request_.sequence(), *std::move(plan));
}

void ExecuteStream::Send(wire::ExecuteResponse response) {
  if (ended_) return;
  queue_.push_back(std::move(response));
  WriteNext();
}

void ExecuteStream::WriteNext() {
  if (writing_ || ended_ || queue_.empty()) return;
  writing_ = true;
  StartWrite(&queue_.front());
}

void ExecuteStream::OnWriteDone(bool ok) {
  if (!ok) {
    End(absl::CancelledError("the scheduler is gone"));
    return;
  }
  MutexLock lock(mutex_);
  if (queue_.front().has_heartbeat()) heartbeat_waits_ = false;
  queue_.pop_front();
  writing_ = false;
  WriteNext();
}

void ExecuteStream::OnCancel() {
  End(absl::CancelledError("the call was cancelled"));
}

void ExecuteStream::OnDone() {
  owner_.OnClosed(*this);
  delete this;
}

}  // namespace bole
