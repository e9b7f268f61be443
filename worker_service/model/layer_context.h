// What the layers of one forward share.
#ifndef BOLE_WORKER_SERVICE_MODEL_LAYER_CONTEXT_H_
#define BOLE_WORKER_SERVICE_MODEL_LAYER_CONTEXT_H_

#include <cstdint>
#include <span>

#include "kernels/operator_set.h"
#include "worker_service/model/device_arrays.h"
#include "worker_service/model/model_config.h"

namespace bole {

// What a forward does to the recurrent state (kernels/gdn.h, GdnCoreParams).
enum class ForwardMode {
  kPrefill,  // Chains; states and windows advance.
  kDecode,   // One row per request; states and windows advance.
  kVerify,   // A forest; states are only read, until a commit.
};

// The rows of one batch in a forward. Mixers process the batches one by one;
// everything else treats the rows of all parts as one array.
struct ForwardPart {
  RowBatch batch;
  const int32_t* token;  // [N]; read by HybridModel alone.
  ForwardMode mode;
  RowPath all_rows = {};  // kPrefill, kDecode: every row of the batch.
  TreeSolver solver = TreeSolver::kBlocks;
  int first_row = 0;  // Rows of the forward that come before these.
};

// Buffers of one forward, reused from layer to layer. Each is as wide as the
// widest layer needs.
struct Scratch {
  // Room for `max_rows` rows on one of `num_ranks` ranks. Allocation errors
  // stick in `arrays`.
  Scratch(const ModelConfig& config, int max_rows, int num_ranks,
          DeviceArrays& arrays);

  ElementType type;       // Activations are stored as this.
  Activation* residual;   // [N, H] the residual stream that layers add to.
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
  const ModelConfig& config;  // Describes the rank's part of the model.
  RowCount rows;              // All parts together.
  std::span<const ForwardPart> parts;  // In the order in which mixers run.
  GdnStates states;
  GdnFactors factors;
  KvPages pages;
  int first_key = 0;  // For attention (kernels/attention.h).
  const float* inverse_frequency;
  const Scratch& scratch;
};

GdnShape GdnShapeOf(const ModelConfig& config);
AttentionShape AttentionShapeOf(const ModelConfig& config);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_MODEL_LAYER_CONTEXT_H_
