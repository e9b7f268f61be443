// The target model: its forward pass, and the commit that follows it.
#ifndef BOLE_WORKER_SERVICE_MODEL_HYBRID_MODEL_H_
#define BOLE_WORKER_SERVICE_MODEL_HYBRID_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "kernels/operator_set.h"
#include "worker_service/model/device_arrays.h"
#include "worker_service/model/head.h"
#include "worker_service/model/layer_context.h"
#include "worker_service/model/model_parts.h"

namespace bole {

class HybridModel {
 public:
  // The most rows of one batch; the scratch must have room for all rows that
  // run together.
  struct Capacity {
    int max_forest_rows;   // kVerify, kDecode
    int max_prefill_rows;  // kPrefill
    // Keeps a state for every row of a forest: then every kVerify forward must
    // use kSerial.
    bool keeps_node_states = false;
  };
  // Allocation errors stick in `arrays`.
  HybridModel(const ModelParts& parts, const Capacity& capacity,
              DeviceArrays& arrays);

  // Runs the rows through every layer. hidden [N, H] receives the vectors after
  // the final norm, which the head and the drafter read. Keys and values of the
  // rows are written at committed + node.
  absl::Status Forward(const ForwardPart& part, Activation* hidden);
  // Runs several batches at once. The results are those of each batch alone,
  // but the weights are read only once. `rows` is the number of their rows
  // together; each batch begins at its first_row. At most one is kVerify, and
  // kPrefill batches come before it in `parts`, because their factors are
  // written to memory that it then overwrites with its own.
  absl::Status Forward(std::span<const ForwardPart> parts, RowCount rows,
                       Activation* hidden);

  Head head() const;
  // logits [N, V], or the rank's columns of them.
  absl::Status Logits(RowCount rows, const Activation* hidden, float* logits);

  // After a kVerify forward of `batch`, advances states, windows and KV along
  // the path. The other modes need no commit: they have already advanced states
  // and windows, and their paths have no gaps, so that no KV has to move.
  absl::Status Commit(const RowBatch& batch, const RowPath& path);

  // The factors that the last forward kept for its rows; for tests.
  const GdnFactors& factors() const { return factors_; }
  size_t factor_bytes() const { return factor_bytes_; }

 private:
  const ModelParts parts_;
  size_t factor_bytes_;
  GdnFactors factors_;
};

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_MODEL_HYBRID_MODEL_H_
