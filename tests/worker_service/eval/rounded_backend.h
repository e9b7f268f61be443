// The reference with everything rounded that a backend of bfloat16 stores.
#ifndef BOLE_TESTS_WORKER_SERVICE_EVAL_ROUNDED_BACKEND_H_
#define BOLE_TESTS_WORKER_SERVICE_EVAL_ROUNDED_BACKEND_H_

#include <cstdint>
#include <random>

#include "kernels/reference/reference_backend.h"

namespace bole::testing_support {

// Weights when they are loaded, and the activations, keys and values that an
// operator writes, to the nearest bfloat16; arithmetic, states, scales, gates
// and logits stay float32. So its outputs are off by what that storage costs: a
// sample of the noise that every right backend of bfloat16 has.
//
// Each seed but 0 gives another sample: what is halfway between two bfloat16,
// within a sixteenth of their distance, goes either way.
class RoundedBackend : public ReferenceBackend {
 public:
  explicit RoundedBackend(int num_threads, uint32_t seed = 0)
      : ReferenceBackend(num_threads), rounding_(seed) {}

  absl::StatusOr<const WeightMatrix*> LoadMatrix(
      const MatrixSource& source) override;

  absl::Status Embed(const EmbedParams& params) override;
  absl::Status RmsNorm(const RmsNormParams& params) override;
  absl::Status MatMul(const MatMulParams& params) override;
  absl::Status SiluMul(const SiluMulParams& params) override;
  absl::Status Moe(const MoeParams& params) override;

  absl::Status GdnConv(const GdnConvParams& params) override;
  absl::Status GdnVerify(const GdnCoreParams& params) override;
  absl::Status GdnDecode(const GdnCoreParams& params) override;
  absl::Status GdnPrefill(const GdnCoreParams& params) override;
  absl::Status GdnGatedNorm(const GdnGatedNormParams& params) override;

  absl::Status PrepareQkv(const QkvParams& params) override;
  absl::Status Attend(const AttentionParams& params) override;

 private:
  // Rounds in place.
  class Rounding {
   public:
    explicit Rounding(uint32_t seed) : seed_(seed), random_(seed) {}
    void Round(float* x, int64_t count);
    absl::Status RoundRows(const RowCount& rows, int width, Activation* x);

   private:
    uint32_t seed_;
    std::minstd_rand random_;
  };
  absl::Status RoundOut(const GdnCoreParams& params);

  Rounding rounding_;
};

}  // namespace bole::testing_support

#endif  // BOLE_TESTS_WORKER_SERVICE_EVAL_ROUNDED_BACKEND_H_
