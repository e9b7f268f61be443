// How the drafter's weights are kept. What it computes decides how many drafts
// are accepted and never a token, so they may be kept in fewer bits.
#ifndef BOLE_WORKER_SERVICE_DRAFT_WEIGHTS_H_
#define BOLE_WORKER_SERVICE_DRAFT_WEIGHTS_H_

#include "absl/status/status.h"
#include "common/command_line.h"
#include "kernels/weight_store.h"
#include "worker_service/model/weights.h"

namespace bole {

enum class DraftWeights {
  kAuto,  // kInt7 where activations are bfloat16, else kFull.
  kFull,  // As the target's.
  kInt7,  // 7-bit integers with a scale for each row (kernels/int7.h).
};

// Adds --draft-weights, which sets `kind`; what it holds is the default.
void AddDraftWeightsFlag(CommandLine& command, DraftWeights& kind);

// Quantises the matrices that are the drafter's own, in their place: those of
// its layer, but for a mixture of experts, and a restricted head, if it has
// got one already. What it shares with the target stays as it is. A rank
// quantises its own part: of a matrix that is cut by columns, each rank has
// scales of its own.
// Errors: INVALID_ARGUMENT if kInt7 is asked for and there is no drafter, or a
// weight is not finite; RESOURCE_EXHAUSTED without room for a matrix twice.
absl::Status SetDraftWeights(DraftWeights kind, WeightStore& store,
                             Weights& weights);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_DRAFT_WEIGHTS_H_
