// How the drafter's weights are stored. What the drafter computes decides how
// many drafts are accepted but never which tokens are emitted, so its weights
// may have fewer bits.
#ifndef BOLE_WORKER_SERVICE_LOADING_DRAFT_WEIGHTS_H_
#define BOLE_WORKER_SERVICE_LOADING_DRAFT_WEIGHTS_H_

#include "absl/status/status.h"
#include "common/command_line.h"
#include "kernels/weight_store.h"
#include "worker_service/model/weights.h"

namespace bole {

enum class DraftWeights {
  kAuto,  // kInt7 where activations are bfloat16, else kFull.
  kFull,  // Like the target's weights.
  kInt7,  // 7-bit integers with a scale for each row (kernels/int7.h).
};

// Adds --draft-weights, which sets `kind`; its current value is the default.
void AddDraftWeightsFlag(CommandLine& command, DraftWeights& kind);

// Quantises the drafter's own matrices and puts the results in their place:
// those of its layer, except for a mixture of experts, and a restricted head,
// if it already has one. Matrices that it shares with the target stay as they
// are. A rank quantises its own part, so if a matrix is split by columns, each
// rank has scales of its own.
// Errors: INVALID_ARGUMENT if kInt7 is requested and there is no drafter, or a
// weight is not finite; RESOURCE_EXHAUSTED without room for a second copy of a
// matrix.
absl::Status SetDraftWeights(DraftWeights kind, WeightStore& store,
                             Weights& weights);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_LOADING_DRAFT_WEIGHTS_H_
