// The layers of a hybrid model. Each reads and adds to the residual stream. Of
// several ranks each has a part of every layer, and the stream is the same on
// all of them.
#ifndef BOLE_WORKER_SERVICE_MODEL_LAYERS_H_
#define BOLE_WORKER_SERVICE_MODEL_LAYERS_H_

#include <span>

#include "absl/status/status.h"
#include "worker_service/model/layer_context.h"
#include "worker_service/model/weights.h"

namespace bole {

// Layers of each kind before a layer: the places of its state, and of its keys
// and values.
struct LayerPlace {
  int linear;
  int attention;
};

// The norm after the last layer.
struct FinalNorm {
  const float* weight;  // [H]
  Activation* out;      // [N, H]
};

// x += mixer(norm(x)); x += ffn(norm(x)) for each of the layers, the first of
// which is at `first`, and the final norm of x; x is scratch.residual.
// REQUIRES: there is a layer.
absl::Status RunLayers(std::span<const LayerWeights> layers, LayerPlace first,
                       const FinalNorm& final_norm,
                       const LayerContext& context);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_MODEL_LAYERS_H_
