// The drafter's network: one multi-token-prediction layer.
#ifndef BOLE_WORKER_SERVICE_MODEL_MTP_LAYER_H_
#define BOLE_WORKER_SERVICE_MODEL_MTP_LAYER_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/operator_set.h"
#include "worker_service/model/device_arrays.h"
#include "worker_service/model/head.h"
#include "worker_service/model/model_parts.h"

namespace bole {

// The KV index of the drafter's first entry, which belongs to hidden vector 0
// and token 1.
inline constexpr int kFirstDraftKey = 1;

// Slot p pairs the hidden vector at position p with the token at position p +
// 1; its output is the hidden vector that predicts position p + 2 through the
// target's head. The first step takes the target's hidden vector after its
// final norm; every further step takes the drafter's own output.
//
// The key and value of slot p are rotated by position p and lie at KV index p +
// kFirstDraftKey, the position of the slot's token. So, as in the target, they
// depend on the tokens up to their KV index and on no later ones: the first L
// tokens of a sequence determine the first L entries of every layer. KV index 0
// is unused and never read.
class MtpLayer {
 public:
  // REQUIRES: parts.weights.drafter; scratch for max_rows rows. Allocation
  // errors stick in `arrays`.
  MtpLayer(const ModelParts& parts, int max_rows, DeviceArrays& arrays);

  struct Input {
    RowBatch batch;
    const int32_t* token;       // [N] of position p + 1.
    const Activation* hidden;   // [., H]
    const int32_t* hidden_row;  // [N] row of `hidden`.
  };
  // `out` is [N, H] and does not overlap input.hidden. The keys and values of
  // the rows are written to the drafter's KV layer at KV index kFirstDraftKey +
  // committed + node.
  absl::Status Forward(const Input& input, Activation* out);

  // The head that scores the hidden vectors.
  Head head() const;
  // `logits` is [N, columns of the head], or the rank's part of the columns.
  absl::Status Logits(RowCount rows, const Activation* hidden, float* logits);

 private:
  const ModelParts parts_;
  Activation* combined_;  // [N, 2 H] embedding | hidden, both normalised.
};

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_MODEL_MTP_LAYER_H_
