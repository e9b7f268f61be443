// A worker on loopback that does what a test tells it to.
#ifndef BOLE_TESTS_SCHEDULER_SERVICE_LINKS_FAKE_WORKER_H_
#define BOLE_TESTS_SCHEDULER_SERVICE_LINKS_FAKE_WORKER_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/check.h"
#include "common/mutex.h"
#include "common/net/server_credentials.h"
#include "common/net/service_host.h"
#include "common/step.h"
#include "grpcpp/server_context.h"
#include "proto/step_codec.h"
#include "proto/worker.grpc.pb.h"
#include "scheduler_service/links/worker_client.h"

namespace bole::testing {

// What a client reported, in order. Thread-safe.
class EventLog {
 public:
  void Add(WorkerNews event) {
    MutexLock lock(mutex_);
    events_.push_back(std::move(event));
    changed_.NotifyAll();
  }

  // The oldest event that was not taken yet; none if none comes in `wait`.
  std::optional<WorkerNews> Next(
      std::chrono::milliseconds wait = std::chrono::seconds(20)) {
    const auto deadline = std::chrono::steady_clock::now() + wait;
    MutexLock lock(mutex_);
    while (events_.empty()) {
      if (!changed_.WaitUntil(mutex_, deadline)) return std::nullopt;
    }
    WorkerNews event = std::move(events_.front());
    events_.pop_front();
    return event;
  }

  // The next event if it is a T.
  template <typename T>
  std::optional<T> NextAs() {
    std::optional<WorkerNews> event = Next();
    if (!event || !std::holds_alternative<T>(*event)) return std::nullopt;
    return std::get<T>(*std::move(event));
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::deque<WorkerNews> events_ ABSL_GUARDED_BY(mutex_);
};

// One Execute call, seen by the script, which runs on a thread of the server.
class FakeExecute {
 public:
  using Stream = grpc::ServerReaderWriter<worker::v1::ExecuteResponse,
                                          worker::v1::ExecuteRequest>;

  FakeExecute(grpc::ServerContext& context, Stream& stream)
      : context_(context), stream_(stream) {}

  // The next request; false at the end.
  bool Read(worker::v1::ExecuteRequest& request) {
    return stream_.Read(&request);
  }
  // Reads the first request, whose epoch is that of all answers.
  uint64_t ReadEpoch() {
    worker::v1::ExecuteRequest request;
    if (Read(request)) epoch_ = request.epoch();
    return epoch_;
  }
  // The next plan. REQUIRES: there is one.
  StepPlan ReadPlan(uint64_t* sequence = nullptr) {
    worker::v1::ExecuteRequest request;
    BOLE_CHECK(Read(request));
    if (sequence != nullptr) *sequence = request.sequence();
    absl::StatusOr<StepPlan> plan = DecodePlan(request.plan());
    BOLE_CHECK(plan.ok());
    return *std::move(plan);
  }

  void Open(uint32_t heartbeat_interval_ms = 0) {
    ReadEpoch();
    Write([&](auto& response) {
      response.mutable_opened()->set_heartbeat_interval_ms(
          heartbeat_interval_ms);
    });
  }
  void Beat(bool draining = false) {
    Write([&](auto& response) {
      response.mutable_heartbeat()->set_draining(draining);
    });
  }
  void Answer(uint64_t sequence, const StepResult& result, uint32_t step_us,
              ResultForm form = ResultForm::kRaw) {
    Write([&](auto& response) {
      response.mutable_outcome()->set_sequence(sequence);
      response.mutable_outcome()->set_step_us(step_us);
      EncodeResult(result, *response.mutable_outcome()->mutable_result(), form);
    });
  }
  // Sends what `fill` makes of a response of this epoch.
  void Write(const std::function<void(worker::v1::ExecuteResponse&)>& fill) {
    worker::v1::ExecuteResponse response;
    response.set_epoch(epoch_);
    fill(response);
    stream_.Write(response);
  }

  // Returns when the client has ended the call, or half of it.
  void AwaitClient() {
    worker::v1::ExecuteRequest request;
    while (Read(request)) continue;
  }
  bool cancelled() const { return context_.IsCancelled(); }

 private:
  grpc::ServerContext& context_;
  Stream& stream_;
  uint64_t epoch_ = 0;
};

class FakeWorker final : public worker::v1::Worker::Service {
 public:
  using Script = std::function<grpc::Status(FakeExecute& call)>;

  // `script` runs once for every Execute call.
  FakeWorker(const WorkerDescription& description, Script script,
             const TlsFiles& tls = {})
      : script_(std::move(script)) {
    info_.set_model(description.model);
    info_.set_device(description.device);
    info_.set_version(description.version);
    EncodeLimits(description.limits, *info_.mutable_limits());
    info_.set_has_drafter(description.has_drafter);
    info_.set_protocol_version(description.protocol_version);
    info_.set_synthetic(description.synthetic);
    info_.mutable_fingerprint()->set_config(description.fingerprint.config);
    info_.mutable_fingerprint()->set_tokenizer(
        description.fingerprint.tokenizer);
    info_.mutable_fingerprint()->set_weights(description.fingerprint.weights);
    info_.mutable_eos_token_ids()->Add(description.stop_tokens.begin(),
                                       description.stop_tokens.end());
    info_.mutable_defaults()->set_temperature(description.temperature);
    info_.mutable_defaults()->set_top_k(description.top_k);
    info_.mutable_defaults()->set_top_p(description.top_p);
    info_.mutable_defaults()->set_min_p(description.min_p);
    info_.mutable_defaults()->set_repetition_penalty(
        description.repetition_penalty);
    grpc::Service* services[] = {this};
    auto host = ServiceHost::Start({.tls = tls}, services);
    BOLE_CHECK(host.ok());
    host_ = *std::move(host);
  }
  ~FakeWorker() override { host_.reset(); }

  std::string address() const { return host_->address().ToString(); }
  int num_calls() const { return num_calls_; }

  grpc::Status Describe(grpc::ServerContext*,
                        const worker::v1::DescribeRequest*,
                        worker::v1::DescribeResponse* response) override {
    *response = info_;
    return grpc::Status::OK;
  }
  grpc::Status Execute(grpc::ServerContext* context,
                       FakeExecute::Stream* stream) override {
    ++num_calls_;
    FakeExecute call(*context, *stream);
    return script_(call);
  }

 private:
  const Script script_;
  worker::v1::DescribeResponse info_;
  std::atomic<int> num_calls_{0};
  std::unique_ptr<ServiceHost> host_;
};

}  // namespace bole::testing

#endif  // BOLE_TESTS_SCHEDULER_SERVICE_LINKS_FAKE_WORKER_H_
