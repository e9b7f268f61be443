// What the layers of one forward share.
#ifndef BOLE_WORKER_SERVICE_MODEL_LAYER_CONTEXT_H_
#define BOLE_WORKER_SERVICE_MODEL_LAYER_CONTEXT_H_

#include <cstdint>
#include <span>

#include "kernels/operator_set.h"
#include "worker_service/device_arrays.h"
#include "worker_service/model/model_config.h"

namespace bole {

// What happens to the recurrent state (kernels/gdn.h, GdnCoreParams).
enum class ForwardMode {
  kPrefill,  // Chains; states and windows move on.
  kDecode,   // One row per request; states and windows move on.
  kVerify,   // A forest; states are only read, until a commit.
};

// Rows of a forward that are one batch. The mixers take them batch by batch;
// for everything else the rows of all parts are one array.
struct ForwardPart {
  RowBatch batch;
  const int32_t* token;  // [N]; read by HybridModel alone.
  ForwardMode mode;
  RowPath all_rows = {};  // kPrefill, kDecode: every row of the batch.
  TreeSolver solver = TreeSolver::kBlocks;
  int first_row = 0;  // Rows of the forward that come before these.
};

// Buffers of one forward, reused from layer to layer. Columns are the widest
// that any layer needs.
struct Scratch {
  // Room for `max_rows` rows on one of `num_ranks` ranks. Allocation errors
  // stick in `arrays`.
  Scratch(const ModelConfig& config, int max_rows, int num_ranks,
          DeviceArrays& arrays);

  ElementType type;       // Activations are stored as this.
  Activation* residual;   // [N, H] the stream that layers add to.
  Activation* normed;     // [N, H]
  Activation* projected;  // [N, widest projection]
  Activation* q;          // [N, widest q]
  float* q_scale;         // [N, Hk]
  Activation* mixed;      // [N, widest mixer output]
  Activation* gate_up;    // [N, 2 I], unused by MoE.
  Activation* inner;      // [N, I]
  Activation* partial;    // [N, H] of the rank; null with one rank.
};

// One forward: the rows, where their sequences' memory is, and scratch.
struct LayerContext {
  OperatorSet& operators;
  const ModelConfig& config;           // What the rank has of the model.
  RowCount rows;                       // Of all parts together.
  std::span<const ForwardPart> parts;  // In the order in which mixers run.
  GdnStates states;
  GdnFactors factors;
  KvPages pages;
  int first_key = 0;  // Of its attention layers (kernels/attention.h).
  const float* inverse_frequency;
  const Scratch& scratch;
};

GdnShape GdnShapeOf(const ModelConfig& config);
AttentionShape AttentionShapeOf(const ModelConfig& config);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_MODEL_LAYER_CONTEXT_H_
