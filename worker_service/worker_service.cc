#include "worker_service/worker_service.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "proto/step_codec.h"

namespace bole {

namespace wire = worker::v1;

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
                 }}),
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
  response->mutable_defaults()->set_temperature(info.temperature);
  response->mutable_defaults()->set_top_k(info.top_k);
  response->mutable_defaults()->set_top_p(info.top_p);
  response->mutable_defaults()->set_min_p(info.min_p);
  response->mutable_defaults()->set_repetition_penalty(info.repetition_penalty);
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

grpc::ServerBidiReactor<wire::ExecuteRequest, wire::ExecuteResponse>*
WorkerService::Execute(grpc::CallbackServerContext* /*context*/) {
  return new ExecuteStream(*this);  // Deletes itself.
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

bool WorkerService::WaitUntilDrained(
    std::chrono::steady_clock::time_point deadline) {
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
    EndDrainCalls();
    changed_.NotifyAll();
  }
  loop_.Stop();
}

absl::Status WorkerService::OnOpen(ExecuteStream& stream, uint64_t epoch) {
  MutexLock lock(mutex_);
  BOLE_RETURN_IF_ERROR(closed_);
  if (epoch <= epoch_) {
    metrics_.StaleEpoch();
    return absl::FailedPreconditionError(
        absl::StrCat("epoch ", epoch, " is not higher than ", epoch_,
                     ", which this worker has had; use a higher one"));
  }
  if (stream_ != nullptr) {
    stream_->End(absl::AbortedError(
        absl::StrCat("epoch ", epoch, " takes over from epoch ", epoch_)));
  }
  epoch_ = epoch;
  stream_ = &stream;
  loop_.Open(epoch);
  metrics_.Opened(epoch);
  stream.SendOpened(options_.heartbeat_interval);
  if (draining_) stream.SendHeartbeat(draining_);
  return absl::OkStatus();
}

absl::Status WorkerService::OnPlan(uint64_t epoch, uint64_t sequence,
                                   StepPlan plan) {
  return loop_.Submit(epoch, sequence, std::move(plan));
}

void WorkerService::OnMalformed() { metrics_.Malformed(); }

void WorkerService::OnClosed(const ExecuteStream& stream) {
  MutexLock lock(mutex_);
  if (stream_ != &stream) return;
  stream_ = nullptr;
  loop_.Close(epoch_);
  metrics_.Closed();
  EndDrainCalls();
  changed_.NotifyAll();
}

void WorkerService::OnOutcome(const ComputeOutcome& outcome) {
  metrics_.Stepped(outcome);
  if (absl::IsInternal(outcome.result.status())) {
    Fail(outcome.result.status());
    return;
  }
  MutexLock lock(mutex_);
  if (stream_ != nullptr && epoch_ == outcome.epoch) stream_->Answer(outcome);
}

void WorkerService::Fail(const absl::Status& why) {
  const auto deadline = std::chrono::steady_clock::now() + kFarewell;
  {
    MutexLock lock(mutex_);
    if (failed_) return;
    failed_ = true;
    closed_.Update(why);
    if (stream_ != nullptr) stream_->End(why);
    EndDrainCalls();
    changed_.NotifyAll();
    while (stream_ != nullptr && changed_.WaitUntil(mutex_, deadline)) continue;
  }
  if (options_.on_failure) options_.on_failure(why);
}

void WorkerService::SendHeartbeat() {
  MutexLock lock(mutex_);
  if (stream_ != nullptr) stream_->SendHeartbeat(draining_);
}

void WorkerService::StartDraining() {
  if (draining_) return;
  draining_ = true;
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
