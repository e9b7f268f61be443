// The target model: the forward pass, and the commit that follows it.
#ifndef BOLE_WORKER_SERVICE_MODEL_HYBRID_MODEL_H_
#define BOLE_WORKER_SERVICE_MODEL_HYBRID_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "kernels/operator_set.h"
#include "worker_service/device_arrays.h"
#include "worker_service/model/head.h"
#include "worker_service/model/layer_context.h"
#include "worker_service/model/model_parts.h"

namespace bole {

class HybridModel {
 public:
  // Rows of one forward; the scratch has room for as many as run together.
  struct Capacity {
    int max_forest_rows;   // kVerify, kDecode
    int max_prefill_rows;  // kPrefill
    // A state for every row of a forest: every kVerify forward is of kSerial.
    bool keeps_node_states = false;
  };
  // Allocation errors stick in `arrays`.
  HybridModel(const ModelParts& parts, const Capacity& capacity,
              DeviceArrays& arrays);

  // Runs the rows through every layer. hidden [N, H]: after the final norm,
  // what the head and the drafter read. Keys and values of the rows are written
  // at committed + node.
  absl::Status Forward(const ForwardPart& part, Activation* hidden);
  // The same for several batches at once, as each of them alone would have it,
  // but that the weights are read once: `rows` is how many they have together,
  // each after the rows before its first_row. At most one is of kVerify, and
  // those of kPrefill come before it in `parts`, because their factors are
  // written where its own are to be.
  absl::Status Forward(std::span<const ForwardPart> parts, RowCount rows,
                       Activation* hidden);

  Head head() const;
  // logits [N, V], or the rank's columns of them.
  absl::Status Logits(RowCount rows, const Activation* hidden, float* logits);

  // After a kVerify forward of `batch`: moves states, windows and KV on by the
  // path. After the other modes only the KV of a path with gaps has to move,
  // and it has none.
  absl::Status Commit(const RowBatch& batch, const RowPath& path);

  // What the last forward kept of its rows, for tests.
  const GdnFactors& factors() const { return factors_; }
  size_t factor_bytes() const { return factor_bytes_; }

 private:
  const ModelParts parts_;
  size_t factor_bytes_;
  GdnFactors factors_;
};

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_MODEL_HYBRID_MODEL_H_
