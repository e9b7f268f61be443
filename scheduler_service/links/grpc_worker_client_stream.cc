#include "scheduler_service/links/grpc_worker_client_stream.h"

#include <algorithm>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "proto/grpc_status.h"
#include "proto/protocol_version.h"
#include "proto/step_codec.h"
#include "proto/trace_codec.h"

namespace bole {
namespace {

// The shortest interval, however short a one the worker requests.
constexpr std::chrono::milliseconds kMinSignInterval(10);

// Enough for the parts of a result of some hundred sequences.
constexpr size_t kResponseBytes = 64 << 10;

absl::Status BadAnswer(const absl::AlphaNum& what) {
  return absl::InternalError(
      absl::StrCat("the worker broke the protocol: ", what));
}

}  // namespace

WorkerStream::WorkerStream(const SchedulerIdentity& scheduler, uint64_t epoch,
                           WorkerDescription description, const Sink& sink)
    : scheduler_(scheduler),
      epoch_(epoch),
      sink_(sink),
      response_(kResponseBytes),
      description_(std::move(description)),
      last_heard_(Clock::now()) {}

void WorkerStream::Start(worker::v1::Worker::Stub& stub) {
  stub.async()->Execute(&context_, this);
  AddHold();  // Plans are written from outside of reactions.
  StartRead(&*response_);
  {
    MutexLock lock(mutex_);
    worker::v1::ExecuteRequest& hello = queue_.emplace_back();
    hello.set_epoch(epoch_);
    hello.mutable_scheduler()->set_name(scheduler_.name);
    hello.mutable_scheduler()->set_instance(scheduler_.instance);
    hello.mutable_scheduler()->set_protocol_version(kProtocolVersion);
    WriteNext();
  }
  StartCall();
}

void WorkerStream::Send(uint64_t plan_number, const StepPlan& plan,
                        const PlanTrace& trace) {
  worker::v1::ExecuteRequest request;
  {
    MutexLock lock(mutex_);
    request.Swap(&spare_);
  }
  request.set_epoch(epoch_);
  request.set_sequence(plan_number);
  EncodePlan(plan, *request.mutable_plan());
  EncodeTrace(trace, request);
  Queue(std::move(request));
}

void WorkerStream::EndSpans(const std::vector<SpanId>& spans) {
  worker::v1::ExecuteRequest request;
  request.set_epoch(epoch_);
  EncodeTrace({.ended = spans}, request);
  Queue(std::move(request));
}

void WorkerStream::Queue(worker::v1::ExecuteRequest request) {
  MutexLock lock(mutex_);
  if (ending_ || closing_) return;
  queue_.push_back(std::move(request));
  WriteNext();
}

void WorkerStream::Close() {
  MutexLock lock(mutex_);
  if (ending_ || closing_) return;
  closing_ = true;
  WriteNext();
}

void WorkerStream::WriteNext() {
  if (writing_ || ending_) return;
  if (!queue_.empty()) {
    writing_ = true;
    StartWrite(&queue_.front());
  } else if (closing_) {
    writing_ = true;
    StartWritesDone();
  }
}

void WorkerStream::OnWriteDone(bool ok) {
  MutexLock lock(mutex_);
  writing_ = false;
  // The hello is not reused, because it names the scheduler.
  if (queue_.front().has_plan()) spare_.Swap(&queue_.front());
  queue_.pop_front();
  if (ok) WriteNext();
}

void WorkerStream::OnReadDone(bool ok) {
  absl::Status taken;
  if (ok) {
    {
      MutexLock lock(mutex_);
      last_heard_ = Clock::now();
    }
    taken = Take();
    if (taken.ok()) {
      response_.Renew();
      StartRead(&*response_);
      return;
    }
    Cancel(taken);
  }
  {
    MutexLock lock(mutex_);
    ending_ = true;
  }
  RemoveHold();
}

absl::Status WorkerStream::Take() {
  using Response = worker::v1::ExecuteResponse;
  if (response_->epoch() != epoch_) {
    return BadAnswer(
        absl::StrCat("epoch ", response_->epoch(), " in that of ", epoch_));
  }
  const bool opening = response_->message_case() == Response::kOpened;
  if (opening == opened()) {
    return BadAnswer(opening ? "Opened a second time" : "it did not open");
  }
  switch (response_->message_case()) {
    case Response::kOpened:
      TakeOpened(response_->opened());
      return absl::OkStatus();
    case Response::kHeartbeat:
      if (response_->heartbeat().draining() && !draining_) {
        draining_ = true;
        sink_(WorkerDraining{epoch_});
      }
      return absl::OkStatus();
    case Response::kOutcome:
      return TakeOutcome(response_->outcome());
    case Response::MESSAGE_NOT_SET:
      break;
  }
  return BadAnswer("an empty response");
}

void WorkerStream::TakeOpened(const worker::v1::Opened& opened) {
  const std::chrono::milliseconds interval(opened.heartbeat_interval_ms());
  {
    MutexLock lock(mutex_);
    opened_ = true;
    if (interval.count() > 0) {
      sign_interval_ = std::max(interval, kMinSignInterval);
      next_sign_ = Clock::now() + sign_interval_;
      changed_.NotifyAll();
    }
  }
  sink_(WorkerConnected{epoch_, std::move(description_)});
}

absl::Status WorkerStream::TakeOutcome(const worker::v1::StepOutcome& outcome) {
  const double step_seconds = outcome.step_us() * 1e-6;
  if (outcome.has_result()) {
    absl::StatusOr<StepResult> result = DecodeResult(outcome.result());
    if (!result.ok()) return BadAnswer(result.status().message());
    sink_(WorkerOutcome{epoch_, outcome.sequence(), *std::move(result),
                        step_seconds});
    return absl::OkStatus();
  }
  if (!outcome.has_refusal()) return BadAnswer("an empty outcome");
  const int code = outcome.refusal().code();
  if (code <= 0 || code > grpc::StatusCode::UNAUTHENTICATED) {
    return BadAnswer(absl::StrCat("a refusal with code ", code));
  }
  const absl::Status why(static_cast<absl::StatusCode>(code),
                         outcome.refusal().message());
  sink_(WorkerOutcome{epoch_, outcome.sequence(), why, step_seconds});
  return absl::OkStatus();
}

void WorkerStream::Cancel(const absl::Status& why) {
  {
    MutexLock lock(mutex_);
    if (why_.ok()) why_ = why;
  }
  context_.TryCancel();
}

void WorkerStream::OnDone(const grpc::Status& status) {
  MutexLock lock(mutex_);
  closed_ = closing_ && why_.ok() && status.ok();
  if (why_.ok()) {
    why_ = status.ok() ? absl::UnavailableError("the worker ended the stream")
                       : FromGrpcStatus(status);
  }
  done_ = true;
  changed_.NotifyAll();
}

absl::Status WorkerStream::AwaitEnd(std::chrono::milliseconds timeout) {
  MutexLock lock(mutex_);
  while (!done_) {
    const Clock::time_point silent_at = last_heard_ + timeout;
    const Clock::time_point now = Clock::now();
    if (now < silent_at) {
      if (now >= next_sign_) GiveSignOfLife(now);
      changed_.WaitUntil(mutex_, std::min(silent_at, next_sign_));
      continue;
    }
    if (why_.ok()) {
      why_ = absl::DeadlineExceededError(
          absl::StrCat("nothing was heard for ", timeout.count(), " ms"));
    }
    context_.TryCancel();
    while (!done_) changed_.Wait(mutex_);
  }
  return why_;
}

void WorkerStream::GiveSignOfLife(Clock::time_point now) {
  next_sign_ = now + sign_interval_;
  // A queued plan is a sign of life as well.
  if (ending_ || closing_ || !queue_.empty()) return;
  queue_.emplace_back().set_epoch(epoch_);
  WriteNext();
}

bool WorkerStream::opened() const {
  MutexLock lock(mutex_);
  return opened_;
}

bool WorkerStream::closed() const {
  MutexLock lock(mutex_);
  return closed_;
}

}  // namespace bole
