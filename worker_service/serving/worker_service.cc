#include "worker_service/serving/worker_service.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/status_macros.h"
#include "proto/protocol_version.h"
#include "proto/step_codec.h"

namespace bole {

namespace wire = worker::v1;
using Clock = std::chrono::steady_clock;

class WorkerService::DrainCall final : public grpc::ServerUnaryReactor {
 public:
  explicit DrainCall(WorkerService& service) : service_(service) {}

  void OnCancel() override {
    if (service_.Forget(this)) Finish(grpc::Status::CANCELLED);
  }
  void OnDone() override { delete this; }

 private:
  WorkerService& service_;
};

WorkerService::WorkerService(WorkerServiceOptions options,
                             WorkerMetrics& metrics)
    : options_(std::move(options)),
      metrics_(metrics),
      seat_(std::max(options_.scheduler_timeout,
                     3 * options_.heartbeat_interval)),
      cost_table_(options_.info.cost_table),
      spans_(options_.spans),
      loop_({.limits = options_.info.limits,
             .has_drafter = options_.info.has_drafter,
             .step = options_.step,
             .on_outcome =
                 [this](const ComputeOutcome& outcome) { OnOutcome(outcome); },
             .step_timeout = options_.step_timeout,
             .on_hang =
                 [this](const absl::Status& why) {
                   metrics_.Hung();
                   Fail(why);
                 },
             .flight = options_.flight}),
      ticker_(options_.heartbeat_interval, [this] { SendHeartbeat(); }) {}

WorkerService::~WorkerService() { Stop(); }

grpc::ServerUnaryReactor* WorkerService::Describe(
    grpc::CallbackServerContext* context,
    const wire::DescribeRequest* /*request*/,
    wire::DescribeResponse* response) {
  const WorkerInfo& info = options_.info;
  response->set_model(info.model);
  response->set_device(info.device);
  response->set_version(info.version);
  EncodeLimits(info.limits, *response->mutable_limits());
  response->set_has_drafter(info.has_drafter);
  response->mutable_eos_token_ids()->Add(info.stop_tokens.begin(),
                                         info.stop_tokens.end());
  response->set_protocol_version(kProtocolVersion);
  response->set_synthetic(info.synthetic);
  wire::Fingerprint& fingerprint = *response->mutable_fingerprint();
  fingerprint.set_config(info.fingerprint.config);
  fingerprint.set_tokenizer(info.fingerprint.tokenizer);
  fingerprint.set_weights(info.fingerprint.weights);
  response->mutable_defaults()->set_temperature(info.temperature);
  response->mutable_defaults()->set_top_k(info.top_k);
  response->mutable_defaults()->set_top_p(info.top_p);
  response->mutable_defaults()->set_min_p(info.min_p);
  response->mutable_defaults()->set_repetition_penalty(info.repetition_penalty);
  response->mutable_row_buckets()->Add(info.row_buckets.begin(),
                                       info.row_buckets.end());
  response->mutable_request_buckets()->Add(info.request_buckets.begin(),
                                           info.request_buckets.end());
  response->set_slot_bytes(info.slot_bytes);
  response->set_page_bytes(info.page_bytes);
  {
    MutexLock lock(mutex_);
    response->set_cost_table(cost_table_);
  }
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

grpc::ServerBidiReactor<wire::ExecuteRequest, wire::ExecuteResponse>*
WorkerService::Execute(grpc::CallbackServerContext* /*context*/) {
  return new ExecuteStream(*this, options_.handled);  // Deletes itself.
}

grpc::ServerUnaryReactor* WorkerService::Drain(
    grpc::CallbackServerContext* /*context*/,
    const wire::DrainRequest* /*request*/, wire::DrainResponse* /*response*/) {
  auto* call = new DrainCall(*this);  // Deletes itself.
  MutexLock lock(mutex_);
  StartDraining();
  if (stream_ != nullptr) {
    drain_calls_.insert(call);
  } else {
    call->Finish(grpc::Status::OK);
  }
  return call;
}

bool WorkerService::WaitUntilDrained(Clock::time_point deadline) {
  MutexLock lock(mutex_);
  StartDraining();
  while (stream_ != nullptr && closed_.ok()) {
    if (!changed_.WaitUntil(mutex_, deadline)) break;
  }
  return stream_ == nullptr;
}

void WorkerService::Stop() {
  {
    MutexLock lock(mutex_);
    closed_.Update(absl::UnavailableError("the worker stops"));
    if (stream_ != nullptr) stream_->End(closed_);
    EndCalibration(closed_);
    EndDrainCalls();
    changed_.NotifyAll();
  }
  {
    MutexLock lock(join_mutex_);
    if (calibrator_.joinable()) calibrator_.join();
  }
  loop_.Stop();
}

absl::Status WorkerService::OnOpen(ExecuteStream& stream,
                                   const SchedulerHello& hello) {
  MutexLock lock(mutex_);
  BOLE_RETURN_IF_ERROR(closed_);
  const Clock::time_point now = Clock::now();
  const std::string former = stream_ != nullptr ? seat_.Holder(now) : "";
  BOLE_RETURN_IF_ERROR(Seat(hello, now));
  if (stream_ != nullptr) {
    stream_->End(absl::AbortedError(
        absl::StrCat(ToString(hello), " takes over from ", former)));
  }
  stream_ = &stream;
  spans_.EndAll();
  loop_.Open(++num_streams_);
  metrics_.Opened(hello.epoch);
  stream.SendOpened(options_.heartbeat_interval);
  if (draining_) stream.SendHeartbeat(draining_);
  return absl::OkStatus();
}

absl::Status WorkerService::Seat(const SchedulerHello& hello,
                                 SchedulerSeat::Time now) {
  absl::Status version =
      CheckProtocolVersion("scheduler", hello.protocol_version);
  if (!version.ok()) {
    metrics_.OtherVersion();
    return version;
  }
  if (calibration_) {
    metrics_.Held();
    const std::chrono::duration<double> since = now - calibration_->begin;
    return absl::UnavailableError(absl::StrFormat(
        "the worker is being calibrated, for %.1f s so far; it is free when "
        "that has ended",
        since.count()));
  }
  // A scheduler whose requests this worker has stopped reading does not count
  // as silent.
  if (stream_ != nullptr && stream_->reading_paused()) seat_.Heard(now);
  absl::Status taken = seat_.Take(hello, now);
  if (absl::IsUnavailable(taken)) metrics_.Held();
  if (absl::IsFailedPrecondition(taken)) metrics_.StaleEpoch();
  return taken;
}

absl::Status WorkerService::OnPlan(const ExecuteStream& stream,
                                   uint64_t sequence, StepPlan plan,
                                   const PlanTrace& trace) {
  MutexLock lock(mutex_);
  if (stream_ != &stream) return absl::OkStatus();  // This stream is ending.
  seat_.Heard(Clock::now());
  spans_.OnPlan(num_streams_, sequence, plan, trace);
  return loop_.Submit(num_streams_, sequence, std::move(plan));
}

void WorkerService::OnHeard(const ExecuteStream& stream,
                            const PlanTrace& trace) {
  MutexLock lock(mutex_);
  if (stream_ != &stream) return;
  seat_.Heard(Clock::now());
  spans_.End(trace.ended);
}

void WorkerService::OnMalformed() { metrics_.Malformed(); }

void WorkerService::OnClosed(const ExecuteStream& stream) {
  MutexLock lock(mutex_);
  if (stream_ != &stream) return;
  stream_ = nullptr;
  seat_.Leave();
  loop_.Close(num_streams_);
  spans_.EndAll();
  metrics_.Closed();
  EndDrainCalls();
  changed_.NotifyAll();
}

void WorkerService::OnOutcome(const ComputeOutcome& outcome) {
  metrics_.Stepped(outcome);
  spans_.OnOutcome(outcome);
  if (absl::IsInternal(outcome.result.status())) {
    Fail(outcome.result.status());
    return;
  }
  MutexLock lock(mutex_);
  if (calibration_ && calibration_->stream == outcome.stream) {
    calibration_->runner->Take(outcome);
    return;
  }
  if (stream_ == nullptr || num_streams_ != outcome.stream) return;
  if (stream_->reading_paused()) seat_.Heard(Clock::now());
  stream_->Answer(outcome);
}

void WorkerService::Fail(const absl::Status& why) {
  const auto deadline = Clock::now() + kFarewell;
  {
    MutexLock lock(mutex_);
    if (failed_) return;
    failed_ = true;
    closed_.Update(why);
    if (stream_ != nullptr) stream_->End(why);
    EndCalibration(why);
    EndDrainCalls();
    changed_.NotifyAll();
    while (stream_ != nullptr && changed_.WaitUntil(mutex_, deadline)) continue;
  }
  if (options_.on_failure) options_.on_failure(why);
}

void WorkerService::Lose(const absl::Status& why) {
  const auto deadline = Clock::now() + kLastWord;
  {
    MutexLock lock(mutex_);
    while (!failed_ && changed_.WaitUntil(mutex_, deadline)) continue;
    if (failed_) return;
  }
  metrics_.Lost();
  Fail(absl::InternalError(
      absl::StrCat("this worker has to be restarted: ", why.ToString())));
}

void WorkerService::SendHeartbeat() {
  MutexLock lock(mutex_);
  if (stream_ != nullptr) stream_->SendHeartbeat(draining_);
}

void WorkerService::StartDraining() {
  if (draining_) return;
  draining_ = true;
  EndCalibration(absl::UnavailableError("the worker is to leave"));
  if (stream_ != nullptr) stream_->SendHeartbeat(draining_);
}

void WorkerService::EndDrainCalls() {
  for (DrainCall* call : drain_calls_) call->Finish(grpc::Status::OK);
  drain_calls_.clear();
}

bool WorkerService::Forget(DrainCall* call) {
  MutexLock lock(mutex_);
  return drain_calls_.erase(call) == 1;
}

}  // namespace bole
