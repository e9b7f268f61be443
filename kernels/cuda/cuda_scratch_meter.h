// Measures how much scratch the GPU's operators need.
#ifndef BOLE_KERNELS_CUDA_CUDA_SCRATCH_METER_H_
#define BOLE_KERNELS_CUDA_CUDA_SCRATCH_METER_H_

#include "absl/status/status.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/scratch_meter.h"

namespace bole::cuda {

// Every operator here calls the same sizing function as the one that it stands
// for.
class CudaScratchMeter final : public ScratchMeter {
 public:
  // `of` must outlive this.
  explicit CudaScratchMeter(const CudaBackend& of)
      : ScratchMeter(of.rank()), of_(of) {}

  absl::Status AddAndProject(const AddAndProjectParams& params) override;
  absl::Status Moe(const MoeParams& params) override;
  absl::Status GdnVerify(const GdnCoreParams& params) override;
  absl::Status GdnPrefill(const GdnCoreParams& params) override;
  absl::Status Attend(const AttentionParams& params) override;
  absl::Status Sample(const SampleParams& params) override;
  absl::Status TopK(const TopKParams& params) override;
  absl::Status SelectForest(const SelectForestParams& params) override;

 private:
  const CudaBackend& of_;
};

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_CUDA_SCRATCH_METER_H_
