#include "worker_service/serving/worker_service_stream.h"

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "proto/grpc_status.h"
#include "proto/step_codec.h"
#include "proto/trace_codec.h"

namespace bole {
namespace {

namespace wire = worker::v1;

// Limits the name of a scheduler, which messages repeat.
constexpr size_t kMaxSchedulerNameBytes = 128;

wire::ExecuteResponse Encode(uint64_t epoch, const ComputeOutcome& outcome) {
  wire::ExecuteResponse response;
  response.set_epoch(epoch);
  wire::StepOutcome& message = *response.mutable_outcome();
  message.set_sequence(outcome.sequence);
  message.set_step_us(static_cast<uint32_t>(outcome.step_seconds * 1e6));
  if (outcome.result.ok()) {
    EncodeResult(*outcome.result, *message.mutable_result(), ResultForm::kRaw);
  } else {
    const grpc::Status status = ToGrpcStatus(outcome.result.status());
    message.mutable_refusal()->set_code(status.error_code());
    message.mutable_refusal()->set_message(status.error_message());
  }
  return response;
}

}  // namespace

ExecuteStream::ExecuteStream(Owner& owner, HandledCalls* handled)
    : owner_(owner), handled_(handled) {
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
  wire::ExecuteResponse response = Encode(epoch_, outcome);
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
  const grpc::Status end = ToGrpcStatus(status);
  if (handled_ != nullptr) handled_->Count(kMethod, end.error_code());
  Finish(end);
}

bool ExecuteStream::reading_paused() const {
  MutexLock lock(mutex_);
  return reading_paused_;
}

// `ok` is also false if the bytes are not a message; that cannot be told from a
// client that has finished sending.
void ExecuteStream::OnReadDone(bool ok) {
  if (!ok) {
    End(absl::OkStatus());
    return;
  }
  const absl::Status status = opened_ ? TakeRequest() : TakeHello();
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

absl::Status ExecuteStream::TakeHello() {
  absl::Status valid = CheckHello();
  if (!valid.ok()) {
    owner_.OnMalformed();
    return valid;
  }
  opened_ = true;
  epoch_ = request_.epoch();
  const wire::Scheduler& scheduler = request_.scheduler();
  return owner_.OnOpen(*this,
                       {.name = scheduler.name(),
                        .instance = scheduler.instance(),
                        .epoch = epoch_,
                        .protocol_version = scheduler.protocol_version()});
}

absl::Status ExecuteStream::CheckHello() const {
  if (request_.has_plan() || request_.sequence() != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the first request has ", request_.has_plan() ? "a" : "no",
        " plan and sequence ", request_.sequence(), ", not an epoch alone"));
  }
  if (!request_.has_scheduler()) return absl::OkStatus();
  if (request_.scheduler().instance() == 0) {
    return absl::InvalidArgumentError(
        "scheduler.instance is 0; it has to be random for each process");
  }
  const size_t name_bytes = request_.scheduler().name().size();
  if (name_bytes <= kMaxSchedulerNameBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("scheduler.name has ", name_bytes, " bytes; allowed are ",
                   kMaxSchedulerNameBytes));
}

absl::Status ExecuteStream::TakeRequest() {
  absl::Status valid = CheckRequest();
  if (!valid.ok()) {
    owner_.OnMalformed();
    return valid;
  }
  const absl::StatusOr<PlanTrace> trace = DecodeTrace(request_);
  if (!trace.ok()) {
    owner_.OnMalformed();
    return trace.status();
  }
  if (request_.has_plan()) return TakePlan(*trace);
  owner_.OnHeard(*this, *trace);
  return absl::OkStatus();
}

absl::Status ExecuteStream::CheckRequest() const {
  if (request_.epoch() != epoch_) {
    return absl::InvalidArgumentError(absl::StrCat(
        "epoch is ", request_.epoch(), ", the stream's is ", epoch_));
  }
  if (request_.has_scheduler()) {
    return absl::InvalidArgumentError(
        "scheduler is set, which only the first request may have");
  }
  const uint64_t expected = request_.has_plan() ? next_sequence_ : 0;
  if (request_.sequence() == expected) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("sequence is ", request_.sequence(), ", not ", expected,
                   request_.has_plan() ? "" : ", in a request without a plan"));
}

absl::Status ExecuteStream::TakePlan(const PlanTrace& trace) {
  absl::StatusOr<StepPlan> plan = DecodePlan(request_.plan());
  if (!plan.ok()) {
    owner_.OnMalformed();
    return plan.status();
  }
  ++next_sequence_;
  {
    MutexLock lock(mutex_);
    ++unanswered_;
  }
  return owner_.OnPlan(*this, request_.sequence(), *std::move(plan), trace);
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
