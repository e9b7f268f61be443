// The scheduler's metrics, by the names that dashboards know.
#ifndef BOLE_SCHEDULER_SERVICE_WATCH_METRICS_H_
#define BOLE_SCHEDULER_SERVICE_WATCH_METRICS_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/draft_shape.h"
#include "prometheus/registry.h"
#include "scheduler_service/jobs/admission.h"
#include "scheduler_service/policy/round_policy.h"
#include "scheduler_service/watch/scheduler_status.h"

namespace bole {

// One round of the loop, from one result to the next.
struct RoundMetrics {
  int sequences = 0;        // Sequences that verified a tree.
  int nodes = 0;            // Selected, roots included.
  int draft_nodes = 0;      // Selected, without roots.
  int accepted_drafts = 0;  // Those of draft_nodes that became output.
  // What the drafter's probabilities said of the nodes, where the scheduler
  // chose them or the worker tells, and what was accepted of those.
  double promised_drafts = 0;
  int kept_drafts = 0;
  int budget = 0;  // Of a planned round.
  std::optional<DraftShape> draft = {};
  OffReason off_reason = OffReason::kNone;
  double predicted_seconds = 0;  // Of the engine; 0: it was not predicted.
  int prefill_tokens = 0;
  int emitted_tokens = 0;
  double round_seconds = 0;  // From sending the plan to its result.
  double step_seconds = 0;   // The engine's part of it.
  double host_seconds = 0;   // From the result before to this plan.
};

// What a request that got a place found of its tokens there.
struct PrefixUse {
  int tokens = 0;  // That it has to have run.
  int cached = 0;  // That were there.
  // Why they were not more; empty: nobody ever had more.
  std::string miss_reason = {};
};

// All methods may be called from any thread. Names and units: README.md.
class Metrics {
 public:
  Metrics();
  ~Metrics();

  const std::shared_ptr<prometheus::Registry>& registry() const;

  void Queued(double seconds);
  void FirstToken(double seconds);
  // `tokens` came `seconds` after those before them, in one round.
  void InterToken(double seconds, int tokens);
  // An admitted request ended. `output_tokens` may be 0.
  void Ended(const absl::Status& status, double total_seconds,
             double first_token_seconds, int output_tokens);
  void PromptTokens(int tokens);
  void Prefix(const PrefixUse& use);
  // A verified sequence of a round: how many tokens it emitted, bonus included,
  // and how many of these were drafted.
  void Accepted(int emitted, int accepted_drafts);
  void Round(const RoundMetrics& round);
  void Preempted();
  // A request lost its place and waits for another one: it was "lost" with its
  // worker, "evicted" for the pages that others need, "preempted" for a tenant
  // that holds less, or its worker "drained".
  void Migrated(const std::string& reason);
  // A request failed, because the model's logits were not numbers.
  void BadLogits();
  // Workers that are not in `status` have no metrics any more.
  void SetLoad(const SchedulerStatus& status, const AdmissionLoad& waiting);

 private:
  struct Families;
  std::unique_ptr<Families> families_;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_WATCH_METRICS_H_
