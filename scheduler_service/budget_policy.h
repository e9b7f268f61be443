// How many nodes a batch verifies in a round.
#ifndef BOLE_SCHEDULER_SERVICE_BUDGET_POLICY_H_
#define BOLE_SCHEDULER_SERVICE_BUDGET_POLICY_H_

#include <cstdint>

namespace bole {

// What a budget may depend on.
struct BatchShape {
  int num_sequences;  // That verify a tree; >= 1.
  int64_t kv_tokens;  // Committed, of them together.
};

// Thread-safe: a policy is asked, and not changed.
class BudgetPolicy {
 public:
  virtual ~BudgetPolicy() = default;

  // Nodes of the whole batch, roots included; at least one for each sequence.
  virtual int NodesFor(const BatchShape& shape) const = 0;
};

// So many for each sequence, whatever the batch: "fixed".
class FixedBudget : public BudgetPolicy {
 public:
  explicit FixedBudget(int nodes_per_sequence)
      : nodes_per_sequence_(nodes_per_sequence) {}

  int NodesFor(const BatchShape& shape) const override {
    return nodes_per_sequence_ * shape.num_sequences;
  }

 private:
  const int nodes_per_sequence_;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_BUDGET_POLICY_H_
