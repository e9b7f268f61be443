// The layers of a hybrid model. Each reads the residual stream and adds to it.
// With several ranks, each rank has a part of every layer, and the stream is
// the same on all of them.
#ifndef BOLE_WORKER_SERVICE_MODEL_LAYERS_H_
#define BOLE_WORKER_SERVICE_MODEL_LAYERS_H_

#include <span>

#include "absl/status/status.h"
#include "worker_service/model/layer_context.h"
#include "worker_service/model/weights.h"

namespace bole {

// The number of layers of each kind before a layer, which is the index of its
// state or of its keys and values.
struct LayerPlace {
  int linear;
  int attention;
};

// The norm after the last layer.
struct FinalNorm {
  const float* weight;  // [H]
  Activation* out;      // [N, H]
};

// For each of the layers, of which the first is at `first`, computes x +=
// mixer(norm(x)) and x += ffn(norm(x)), and then the final norm of x; x is
// scratch.residual.
// REQUIRES: there is a layer.
absl::Status RunLayers(std::span<const LayerWeights> layers, LayerPlace first,
                       const FinalNorm& final_norm,
                       const LayerContext& context);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_MODEL_LAYERS_H_
