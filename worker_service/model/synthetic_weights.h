// The weights of a synthetic model, computed in the memory that will hold them.
#ifndef BOLE_WORKER_SERVICE_MODEL_SYNTHETIC_WEIGHTS_H_
#define BOLE_WORKER_SERVICE_MODEL_SYNTHETIC_WEIGHTS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "kernels/device.h"
#include "kernels/weight_store.h"
#include "worker_service/model/markov_chain.h"
#include "worker_service/model/model_shard.h"
#include "worker_service/model/weights.h"

namespace bole {

struct SyntheticModel {
  MarkovChain chain;  // With its drafter's noise.
  uint64_t seed;
};

// Generates the rank's part of every tensor that a checkpoint of shard.whole
// has; bit for bit, it is a slice of what a single rank would have. Layers do
// all their work on values of realistic ranges but add little to the residual
// stream, so that a token's logits are those of its successors in the chain. A
// tied model gets a head of its own: a step reads as many bytes as with a tied
// one, but the embedding takes additional memory.
//
// INVALID_ARGUMENT: the hidden size is not a multiple of 64, or the vocabulary
// smaller than the chain's. RESOURCE_EXHAUSTED when there is no room.
// REQUIRES: the sizes of heads are multiples of 4.
absl::StatusOr<Weights> GenerateWeights(const SyntheticModel& model,
                                        const ModelShard& shard,
                                        WeightStore& store, Device& device);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_MODEL_SYNTHETIC_WEIGHTS_H_
