#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <semaphore>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/check.h"
#include "common/ids.h"
#include "common/trace/plan_trace.h"
#include "proto/arena_message.h"
#include "proto/step_codec.h"
#include "proto/trace_codec.h"
#include "proto/worker.pb.h"
#include "scheduler_service/models/model_catalog.h"
#include "scheduler_service/models/model_text.h"
#include "scheduler_service/scheduler_loop.h"
#include "scheduler_service/watch/metrics.h"
#include "tests/bench/canned_worker.h"
#include "tests/bench/rounds.h"
#include "tests/bench/samples.h"

namespace bole {
namespace {

using std::chrono::steady_clock;

// The wire cut short: plans end as bytes in memory, results begin as such.
class MemoryLine : public WorkerClient {
 public:
  void Send(uint64_t epoch, uint64_t plan_number, const StepPlan& plan,
            const PlanTrace& trace) override {
    const auto start = steady_clock::now();
    request_.set_epoch(epoch);
    request_.set_sequence(plan_number);
    EncodePlan(plan, *request_.mutable_plan());
    EncodeTrace(trace, request_);
    BOLE_CHECK(request_.SerializeToString(&bytes_));
    sent_ = steady_clock::now();
    encode_us_ = Microseconds(start, sent_);
    ready_.release();
  }
  void Close(uint64_t) override {}
  void Disconnect(uint64_t, const absl::Status& why) override {
    BOLE_CHECK(why.ok());  // Never: the answers are right.
  }

  void WaitForPlan() { ready_.acquire(); }

  // The plan that was waited for.
  worker::v1::ExecuteRequest plan() const {
    worker::v1::ExecuteRequest request;
    BOLE_CHECK(request.ParseFromString(bytes_));
    return request;
  }
  steady_clock::time_point sent() const { return sent_; }
  double encode_us() const { return encode_us_; }
  size_t bytes() const { return bytes_.size(); }

 private:
  worker::v1::ExecuteRequest request_;
  std::string bytes_;
  steady_clock::time_point sent_;
  double encode_us_ = 0;
  std::binary_semaphore ready_{0};
};

// The bytes of the answer to a plan.
std::string AnswerTo(const worker::v1::ExecuteRequest& request,
                     CannedWorker& worker) {
  absl::StatusOr<StepPlan> plan = DecodePlan(request.plan());
  BOLE_CHECK(plan.ok());
  worker::v1::ExecuteResponse response;
  response.set_epoch(request.epoch());
  response.mutable_outcome()->set_sequence(request.sequence());
  EncodeResult(worker.Answer(*plan),
               *response.mutable_outcome()->mutable_result(), ResultForm::kRaw);
  return response.SerializeAsString();
}

// As a client of the worker does with what it reads.
WorkerOutcome Decode(const std::string& bytes,
                     ArenaMessage<worker::v1::ExecuteResponse>& response) {
  BOLE_CHECK(response->ParseFromString(bytes));
  return {.epoch = response->epoch(),
          .plan_number = response->outcome().sequence(),
          .result = DecodeResult(response->outcome().result())};
}

}  // namespace

void RunInMemory() {
  const auto catalog =
      ModelCatalog::Load(std::vector<std::string>{"models/demo"});
  BOLE_CHECK(catalog.ok());
  Metrics metrics;
  SchedulerOptions options;
  options.speculation = {
      .mode = SpeculationMode::kTree, .shape = kCannedShape, .nodes = 32};
  SchedulerLoop loop(options, *catalog, metrics);
  MemoryLine line;
  CannedWorker worker;
  const auto post = [&](WorkerNews news) {
    loop.Post({.worker = WorkerId(0), .news = std::move(news)});
  };
  loop.Start([](WorkerId) { return true; });
  post(WorkerAdded{.name = "memory", .client = &line});
  post(WorkerConnected{.epoch = 1, .description = CannedWorker::Description()});
  std::vector<std::unique_ptr<Request>> requests = CannedRequests(kBenchRounds);
  for (auto& request : requests) {
    BOLE_CHECK(!loop.Submit({&request, 1}).has_value());
  }

  Samples decode("decode the result");
  Samples schedule("apply it, select, pack");
  Samples encode("encode the plan");
  Samples total("result to plan");
  ArenaMessage<worker::v1::ExecuteResponse> response(64 << 10);
  size_t result_bytes = 0;
  size_t plan_bytes = 0;
  line.WaitForPlan();
  for (int round = 0; round < kBenchRounds - kLastRounds; ++round) {
    const std::string bytes = AnswerTo(line.plan(), worker);
    std::this_thread::sleep_for(kBenchStep);
    const auto arrival = steady_clock::now();
    WorkerOutcome outcome = Decode(bytes, response);
    const auto decoded = steady_clock::now();
    loop.PostOutcome(WorkerId(0), std::move(outcome));
    response.Renew();
    line.WaitForPlan();
    if (round < kWarmUpRounds) continue;
    decode.Add(Microseconds(arrival, decoded));
    encode.Add(line.encode_us());
    total.Add(Microseconds(arrival, line.sent()));
    schedule.Add(Microseconds(decoded, line.sent()) - line.encode_us());
    result_bytes = bytes.size();
    plan_bytes = line.bytes();
  }
  loop.Stop();
  std::printf(
      "%d requests, %d candidates each; a result of %zu bytes, "
      "a plan of %zu\n",
      kCannedRequests, kCannedShape.num_candidates(), result_bytes, plan_bytes);
  for (const Samples* samples : {&decode, &schedule, &encode, &total}) {
    samples->Print();
  }
}

}  // namespace bole
