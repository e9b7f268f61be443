// Checks whether a worker's result can be the answer to its plan.
#ifndef BOLE_SCHEDULER_SERVICE_REPLICAS_VALIDATE_RESULT_H_
#define BOLE_SCHEDULER_SERVICE_REPLICAS_VALIDATE_RESULT_H_

#include "absl/status/status.h"
#include "common/step.h"

namespace bole {

// The round that a worker answers next. For the first round of a plan it is the
// plan. In a later round of a lease the worker chooses the forest: then
// `plan.forest` has a lone root with the pending token for every sequence that
// still runs, and no node for the others; committed and max_new_tokens are
// those of the round.
struct AwaitedRound {
  StepPlan plan;
  int round = 0;
};

// INVALID_ARGUMENT, naming the sequence, the field and its value, unless the
// plan can lead to the result:
//   - it is of the awaited round, and no round follows the last one of a lease;
//   - committed grows by the chunk, or by as many tokens as were emitted;
//   - the emitted tokens follow the forest from the root to the first token
//     that it does not have, a stop token or max_new_tokens; accepted_drafts
//     counts those that it has;
//   - promised_drafts, if it is there, is at most the nodes that the worker
//     chose without the root;
//   - tokens are in the vocabulary, requested log-probabilities are there and
//     are numbers; of a prompt they are of its tokens, and all are there, or
//     none, from a worker that does not know of them;
//   - a proposal is there only if the plan asks for one and no round follows;
//     its root is the pending token, and it is as the draft's shape allows;
// - a forest is there only in a later round of a lease, and is within it. No
// value of the result is used as an index before it was checked.
//
// REQUIRES: Validate(plan, limits) held when the plan was sent.
// COST: O(nodes * emitted tokens + nodes of the proposals).
absl::Status ValidateResult(const AwaitedRound& awaited,
                            const StepLimits& limits, const StepResult& result);

// Turns `awaited` into the round that follows `result`.
// REQUIRES: ValidateResult() held, and !result.is_last.
void AdvanceRound(const StepLimits& limits, const StepResult& result,
                  AwaitedRound& awaited);

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_REPLICAS_VALIDATE_RESULT_H_
