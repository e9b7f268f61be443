// The metrics of each model.
#ifndef BOLE_SCHEDULER_SERVICE_WATCH_MODEL_SERIES_H_
#define BOLE_SCHEDULER_SERVICE_WATCH_MODEL_SERIES_H_

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/draft_shape.h"
#include "common/mutex.h"
#include "prometheus/registry.h"
#include "scheduler_service/policy/round_policy.h"

namespace bole {

// By depth: the first entry is for the children of the root.
using CountsByDepth = std::array<int, kMaxDraftDepth>;

// One round of the loop, from one result to the next.
struct RoundMetrics {
  int sequences = 0;        // Sequences that verified a tree.
  int nodes = 0;            // Selected, roots included.
  int draft_nodes = 0;      // Selected, without roots.
  int accepted_drafts = 0;  // Those of draft_nodes that became output.
  // The drafts that the drafter's probabilities promised, for trees where the
  // scheduler chose the nodes or the worker tells, and how many of them were
  // accepted.
  double promised_drafts = 0;
  int kept_drafts = 0;
  // The number of trees that had a node at a depth, and of those where such a
  // node was accepted.
  CountsByDepth verified_at = {};
  CountsByDepth accepted_at = {};
  int budget = 0;  // Only of a planned round.
  std::optional<DraftShape> draft = {};
  OffReason off_reason = OffReason::kNone;
  double predicted_seconds = 0;  // Time in the engine; 0: not predicted.
  int prefill_tokens = 0;
  int emitted_tokens = 0;
  double round_seconds = 0;  // From sending the plan to its result.
  double step_seconds = 0;   // The engine's part of it.
  double host_seconds = 0;   // From the last result to this plan.
};

// The prefix that a request found in the cache when it got a place.
struct PrefixUse {
  int tokens = 0;  // All that the request has.
  int cached = 0;  // Found in the cache.
  // Why not more were found; empty: there never were more.
  std::string miss_reason = {};
};

// An admitted request that ended.
struct EndedRequest {
  std::string model;
  std::string tenant = {};  // Empty: none was named.
  absl::Status status = {};
  bool was_stopped = false;  // By a stop token or text, not by length.
  double total_seconds = 0;
  double first_token_seconds = 0;
  int prompt_tokens = 0;
  int output_tokens = 0;  // May be 0.
};

// The series of one model. All methods may be called from any thread. Names and
// units: README.md.
class ModelSeries {
 public:
  ~ModelSeries();

  void Queued(double seconds);
  void FirstToken(double seconds);
  // One round emitted `tokens`, `seconds` after the tokens before them.
  void InterToken(double seconds, int tokens);
  void Ended(const EndedRequest& request);
  void PromptTokens(int tokens);
  void Prefix(const PrefixUse& use);
  // Counts a verified sequence of a round: how many tokens it emitted, bonus
  // included, and how many of these were drafted.
  void Accepted(int emitted, int accepted_drafts);
  void Round(const RoundMetrics& round);
  void SetLoad(int running, int waiting);

 private:
  friend class ModelFamilies;
  struct Series;
  explicit ModelSeries(std::unique_ptr<Series> series);

  const std::unique_ptr<Series> series_;
};

// The families with a label "model". Thread-safe.
class ModelFamilies {
 public:
  // `registry` must outlive this.
  explicit ModelFamilies(prometheus::Registry& registry);
  ~ModelFamilies();

  // The series of a model, which begin with 0 when it is first named. They live
  // as long as this object. There are few, because only models that the
  // scheduler was started with are named.
  ModelSeries& Of(const std::string& model);

 private:
  prometheus::Registry& registry_;
  Mutex mutex_;
  std::map<std::string, std::unique_ptr<ModelSeries>> models_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_WATCH_MODEL_SERIES_H_
