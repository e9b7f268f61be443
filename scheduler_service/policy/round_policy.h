// How much a round verifies, and what is drafted for the next one.
#ifndef BOLE_SCHEDULER_SERVICE_POLICY_ROUND_POLICY_H_
#define BOLE_SCHEDULER_SERVICE_POLICY_ROUND_POLICY_H_

#include <climits>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/draft_shape.h"
#include "common/proposal_tree.h"
#include "common/step_costs.h"
#include "scheduler_service/policy/request_acceptance.h"

namespace bole {

// What no choice for a worker exceeds. Pages are reserved by it.
struct RoundBounds {
  std::optional<DraftShape> draft;  // Absent: no speculation.
  int max_nodes_per_tree = 1;       // At most the worker's.
};

// A request of the forest.
struct SequenceView {
  RequestAcceptance* acceptance = nullptr;  // Null: nothing is known of it.
  bool speculates = true;                   // It lets drafts be verified.
  bool is_followed = true;                  // The drafter can draft for it.
  double seconds_per_token = 0;    // It is to have; 0: it does not matter.
  double seconds_since_first = 0;  // Since its first token,
  int tokens_since_first = 0;      // and those that came after that.
  int tokens_left = INT_MAX;       // That it may still emit.
};

// What a choice may depend on.
struct RoundView {
  // Who verifies a tree, and the trees, cut to what each can use.
  std::span<const SequenceView> sequences = {};
  std::span<const ProposalTree> trees = {};
  int64_t kv_tokens = 0;       // Committed, of these together.
  int64_t prefill_tokens = 0;  // That wait to be run on this worker.
  int prefilling = 0;          // Requests whose prefill has not ended.
  int arrivals = 0;            // Of these, those whose prefill has not begun,
  int64_t arrival_tokens = 0;  // and the prompt of the first of them.
  int followed_prefills = 0;   // Those that have begun and are followed.
  int joining = 0;             // Requests whose prefill may end in the round.
  int joining_arrivals = 0;    // Of these, arrivals,
  int joining_followed = 0;    // and those that have begun and are followed.
  bool others_wait = false;    // Requests wait, or the worker is to leave.
  double now = 0;              // Seconds, from any beginning.
};

// Why nothing is drafted.
enum class OffReason {
  kNone,       // Something is.
  kAsked,      // The policy is to speculate on nothing.
  kNoDrafter,  // The worker cannot.
  kNotFaster   // Plain decoding is expected to be faster.
};
inline constexpr int kNumOffReasons = 4;
// As metrics write it: "not_faster".
const char* NameOf(OffReason reason);

struct RoundChoice {
  int budget = 0;  // Nodes of the forest, roots included.
  // Of the trees, in order. Empty: no floors, and every cap is
  // RoundBounds::max_nodes_per_tree. The floors are at most `budget` together.
  std::vector<TreeBounds> bounds = {};
  std::optional<DraftShape> draft = {};  // For the next round.
  // A later round may draft again, for those that are followed, although this
  // one does not. If a round neither drafts nor defers, nobody whom it runs is
  // followed from then on.
  bool defers_draft = false;
  // Of the arrivals the first ones that are followed.
  int followed_arrivals = INT_MAX;
  OffReason off_reason = OffReason::kNone;
  // Rounds that the worker runs by itself, and for those after the first one
  // the same as above.
  int lease_rounds = 1;
  int lease_budget = 0;  // 0: as many as there are requests.
  std::vector<TreeBounds> lease_bounds = {};
  int prefill_tokens = INT_MAX;  // That may share the round.
  double predicted_seconds = 0;  // In the engine; 0: it was not predicted.
  double promised_drafts = 0;    // Expected to be accepted.
};

// A tree of a round that has run. The emitted tokens follow it from its root.
struct TreeReport {
  const ProposalTree& tree;
  std::span<const int32_t> selected;  // Its nodes that were verified.
  std::span<const int32_t> emitted;   // Tokens.
  int accepted = 0;                   // Of these, drafts.
  RequestAcceptance* acceptance = nullptr;
};

// A round that has run.
struct RoundReport {
  RoundQuantities quantities{};
  double step_seconds = 0;  // In the engine; 0: not known.
  double trip_seconds = 0;  // Between the services besides that.
  bool is_first = true;     // Of its plan: it paid the trip.
  std::span<const TreeReport> trees =
      {};  // Those that the scheduler selected from.
};

// Decides the rounds of one worker, and learns from what came of them. Lives as
// long as the connection.
//
// Not thread-safe.
class RoundPolicy {
 public:
  virtual ~RoundPolicy() = default;

  // Fixed while it lives.
  virtual const RoundBounds& bounds() const = 0;
  virtual RoundChoice Choose(const RoundView& view) = 0;
  // Prefill goes first to those whose target for the first token is soonest.
  // Fixed while it lives.
  virtual bool urgent_first() const { return false; }
  virtual void Observe(const RoundReport& /*report*/) {}
  // What it does instead of what it was asked for, because of what the worker
  // lacks: "no_table". Empty: it does as asked.
  virtual const char* fallback() const { return ""; }
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_POLICY_ROUND_POLICY_H_
