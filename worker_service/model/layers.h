// The layers of a hybrid model. Each reads and adds to the residual stream.
#ifndef BOLE_WORKER_SERVICE_MODEL_LAYERS_H_
#define BOLE_WORKER_SERVICE_MODEL_LAYERS_H_

#include "absl/status/status.h"
#include "worker_service/model/layer_context.h"
#include "worker_service/model/weights.h"

namespace bole {

// x += mixer(norm(x)); x += ffn(norm(x)), with x the residual stream.
// `memory_layer` counts the layers of the same kind before this one: the place
// of its state, or of its keys and values.
absl::Status RunLayer(const LayerWeights& weights, int memory_layer,
                      const LayerContext& context);

// The parts; x is read from scratch.normed.
absl::Status RunGdn(const GdnWeights& weights, int layer,
                    const LayerContext& context);
absl::Status RunAttention(const AttentionWeights& weights, int layer,
                          const LayerContext& context);
absl::Status RunFfn(const DenseFfnWeights& weights,
                    const LayerContext& context);
absl::Status RunFfn(const MoeFfnWeights& weights, const LayerContext& context);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_MODEL_LAYERS_H_
