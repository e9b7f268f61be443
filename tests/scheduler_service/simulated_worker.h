// A simulated worker in the process of the test, run round by round.
#ifndef BOLE_TESTS_SCHEDULER_SERVICE_SIMULATED_WORKER_H_
#define BOLE_TESTS_SCHEDULER_SERVICE_SIMULATED_WORKER_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/cost_table.h"
#include "common/ids.h"
#include "common/step.h"
#include "common/trace/plan_trace.h"
#include "common/trace/trace_context.h"
#include "scheduler_service/links/worker_client.h"
#include "tests/simulation/simulated_engine.h"

namespace bole::testing {

// What the simulated model writes after `prompt`, greedily. Letters, so that it
// is text in the tiny tokenizer.
std::vector<int32_t> SimulatedOutput(std::span<const int32_t> prompt,
                                     int num_tokens);

// What it reports of the prompt's tokens but the first.
std::vector<EmittedToken> SimulatedPromptLogprobs(
    std::span<const int32_t> prompt, int num_alternatives);

// Queues plans for a SimulatedEngine, which runs them when the test says so. A
// plan that an engine would refuse, that names pages or a slot which hold
// something else than its sequence's tokens, or that is out of sequence is a
// failure of the test.
class SimulatedWorker : public WorkerClient {
 public:
  explicit SimulatedWorker(const StepLimits& limits) : limits_(limits) {}

  static StepLimits SmallLimits();

  // A new connection, with memory that holds nothing.
  WorkerNews Connect();
  WorkerNews Lose();
  // What it is from the next connection on.
  void set_model(std::string model) { model_ = std::move(model); }
  // Whether it copies slots and pages, from the next connection on.
  void set_copies(bool copies) { copies_ = copies; }
  // With a table it knows deferred drafts and the bounds of leases as well.
  void set_costs(std::shared_ptr<const CostTable> costs) {
    costs_ = std::move(costs);
  }

  void Send(uint64_t epoch, uint64_t plan_number, const StepPlan& plan,
            const PlanTrace& trace) override;
  void EndSpans(uint64_t epoch, const std::vector<SpanId>& spans) override;
  void Close(uint64_t epoch) override { closed_ = epoch; }
  void Disconnect(uint64_t epoch, const absl::Status& why) override;

  bool has_plan() const { return !plans_.empty(); }
  const StepPlan& next_plan() const { return plans_.front().plan; }
  // What came with the last plan, and the spans that have ended since the
  // first.
  const PlanTrace& last_trace() const { return last_trace_; }
  const std::vector<SpanId>& ended_spans() const { return ended_spans_; }
  // Runs the oldest plan, or the next round of its lease.
  WorkerOutcome Run();
  // Refuses the oldest plan, and touches nothing.
  WorkerOutcome Refuse(absl::Status why);

  // As SimulatedEngine::FailAt(). REQUIRES: a connection.
  void FailAt(SlotId slot, int position) { engine_->FailAt(slot, position); }

  uint64_t epoch() const { return epoch_; }
  uint64_t closed() const { return closed_; }  // The last one; 0: none.
  // Why the connection was ended by the other side; OK if it was not.
  const absl::Status& disconnected() const { return disconnected_; }

 private:
  struct Sent {
    uint64_t epoch;
    uint64_t plan_number;
    StepPlan plan;  // Of the next round.
    int round = 0;
  };

  const StepLimits limits_;
  std::string model_ = "simulated";
  bool copies_ = false;
  std::shared_ptr<const CostTable> costs_;
  std::optional<simulation::SimulatedEngine> engine_;  // Once connected.
  uint64_t epoch_ = 0;
  uint64_t last_plan_number_ = 0;
  uint64_t closed_ = 0;
  absl::Status disconnected_;
  std::deque<Sent> plans_;
  PlanTrace last_trace_;
  std::vector<SpanId> ended_spans_;
};

}  // namespace bole::testing

#endif  // BOLE_TESTS_SCHEDULER_SERVICE_SIMULATED_WORKER_H_
