// How much a round verifies, and what is drafted for the next one.
#ifndef BOLE_SCHEDULER_SERVICE_POLICY_ROUND_POLICY_H_
#define BOLE_SCHEDULER_SERVICE_POLICY_ROUND_POLICY_H_

#include <cstdint>
#include <optional>
#include <span>

#include "common/draft_shape.h"
#include "common/proposal_tree.h"
#include "common/step.h"

namespace bole {

// What no choice for a worker exceeds. Pages are reserved by it.
struct RoundBounds {
  std::optional<DraftShape> draft;  // Absent: no speculation.
  int max_nodes_per_tree = 1;       // At most the worker's.
};

// What a choice may depend on.
struct RoundView {
  int num_sequences = 0;                // How many verify a tree.
  int64_t kv_tokens = 0;                // Committed, of these together.
  std::span<const ProposalTree> trees;  // Cut to what each can use.
  bool others_wait = false;  // Requests wait, or the worker is to leave.
  bool prefills = false;     // The round has chunks of prompts.
  const StepLimits& limits;  // What the worker can do.
  RoundBounds bounds;
};

struct RoundChoice {
  int budget = 0;                   // Nodes of the batch, roots included.
  int max_nodes_per_tree = 1;       // The root included.
  std::optional<DraftShape> draft;  // For the next round: none, chain or tree.
  int lease_rounds = 1;             // Rounds that the worker runs by itself.
};

// Thread-safe: a policy is asked, and not changed.
class RoundPolicy {
 public:
  virtual ~RoundPolicy() = default;

  virtual RoundBounds BoundsFor(const StepLimits& limits,
                                bool has_drafter) const = 0;
  virtual RoundChoice Choose(const RoundView& view) const = 0;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_POLICY_ROUND_POLICY_H_
