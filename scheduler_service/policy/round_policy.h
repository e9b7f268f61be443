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

// Bounds that no choice for a worker exceeds. Pages are reserved for them.
struct RoundBounds {
  std::optional<DraftShape> draft;  // Absent: no speculation.
  int max_nodes_per_tree = 1;       // At most the worker's.
};

// A request of the forest.
struct SequenceView {
  RequestAcceptance* acceptance = nullptr;  // Null: nothing is known.
  bool speculates = true;                   // Its drafts may be verified.
  bool is_followed = true;                  // The drafter can draft for it.
  double seconds_per_token = 0;             // Target; 0: none.
  double seconds_since_first = 0;           // Since its first token.
  int tokens_since_first = 0;               // Emitted after the first.
  int tokens_left = INT_MAX;                // At most these follow.
};

// The input of a choice.
struct RoundView {
  // The requests that verify a tree, and the trees, trimmed to what each can
  // use.
  std::span<const SequenceView> sequences = {};
  std::span<const ProposalTree> trees = {};
  int64_t kv_tokens = 0;       // Committed tokens of all sequences.
  int64_t prefill_tokens = 0;  // Still to be prefilled on this worker.
  int prefilling = 0;          // Requests whose prefill has not ended.
  int arrivals = 0;            // Prefills not begun yet that are followed.
  int64_t arrival_tokens = 0;  // Prefill tokens of the first arrival.
  int followed_prefills = 0;   // Prefills that have begun and are followed.
  int joining = 0;             // Requests whose prefill may end in this round.
  int joining_arrivals = 0;    // How many `joining` are arrivals.
  int joining_followed = 0;    // How many have begun and are followed.
  bool others_wait = false;    // Requests wait, or the worker is draining.
  double now = 0;              // Seconds since an arbitrary start.
};

// Why nothing is drafted.
enum class OffReason {
  kNone,       // Something is drafted.
  kAsked,      // Speculation was turned off.
  kNoDrafter,  // The worker cannot draft.
  kNotFaster   // Plain decoding is expected to be faster.
};
inline constexpr int kNumOffReasons = 4;
// As metrics write it: "not_faster".
const char* NameOf(OffReason reason);

struct RoundChoice {
  int budget = 0;  // Nodes of the forest, roots included.
  // One entry for each tree, in order. Empty: no floors, and every cap is
  // RoundBounds::max_nodes_per_tree. The sum of the floors is at most `budget`.
  std::vector<TreeBounds> bounds = {};
  std::optional<DraftShape> draft = {};  // For the next round.
  // This round does not draft, but a later one may do so again for the requests
  // that are followed. If a round neither drafts nor defers, none of its
  // requests is followed from then on.
  bool defers_draft = false;
  // How many of the arrivals, from the first on, are followed.
  int followed_arrivals = INT_MAX;
  OffReason off_reason = OffReason::kNone;
  // Rounds that the worker runs without a new plan. For those after the first,
  // `lease_budget` and `lease_bounds` replace `budget` and `bounds`.
  int lease_rounds = 1;
  int lease_budget = 0;  // 0: one node for each request.
  std::vector<TreeBounds> lease_bounds = {};
  int prefill_tokens = INT_MAX;  // The most that may share the round.
  double predicted_seconds = 0;  // In the engine; 0: not predicted.
  double promised_drafts = 0;    // Expected number of accepted drafts.
};

// A tree of a round that has run. The emitted tokens follow it from its root.
struct TreeReport {
  const ProposalTree& tree;
  std::span<const int32_t> selected;  // Its nodes that were verified.
  std::span<const int32_t> emitted;   // The emitted tokens.
  int accepted = 0;                   // How many of these were drafts.
  RequestAcceptance* acceptance = nullptr;
};

// A round that has run.
struct RoundReport {
  RoundQuantities quantities{};
  double step_seconds = 0;  // In the engine; 0: not known.
  double trip_seconds = 0;  // The rest of the trip between services.
  bool is_first = true;     // First of its plan: it paid for the trip.
  std::span<const TreeReport> trees =
      {};  // Those whose nodes the scheduler selected.
};

// Decides the rounds of one worker, and learns from their results. It lives as
// long as the connection.
//
// Not thread-safe.
class RoundPolicy {
 public:
  virtual ~RoundPolicy() = default;

  // Fixed while it lives.
  virtual const RoundBounds& bounds() const = 0;
  virtual RoundChoice Choose(const RoundView& view) = 0;
  // Whether the requests whose target for the first token is soonest are
  // prefilled first.
  // Fixed while it lives.
  virtual bool urgent_first() const { return false; }
  virtual void Observe(const RoundReport& /*report*/) {}
  // Why it does something simpler than what was requested: "no_table". Empty:
  // it does what was requested.
  virtual const char* fallback() const { return ""; }
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_POLICY_ROUND_POLICY_H_
