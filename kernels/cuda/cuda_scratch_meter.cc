#include "kernels/cuda/cuda_scratch_meter.h"

#include "kernels/cuda/moe/moe.h"
#include "kernels/cuda/operators.h"

namespace bole::cuda {

absl::Status CudaScratchMeter::AddAndProject(
    const AddAndProjectParams& params) {
  return Note(of_.ScratchBytes(params));
}

absl::Status CudaScratchMeter::Moe(const MoeParams& params) {
  return Note(MoeRunner::ScratchBytes(params));
}

absl::Status CudaScratchMeter::GdnVerify(const GdnCoreParams& params) {
  return Note(GdnVerifyScratchBytes(params, of_.launch()));
}

absl::Status CudaScratchMeter::GdnPrefill(const GdnCoreParams& params) {
  return Note(GdnPrefillScratchBytes(params, of_.launch()));
}

// This also covers AttentionDecode when it runs as separate operators; its own
// kernel needs no scratch.
absl::Status CudaScratchMeter::Attend(const AttentionParams& params) {
  return Note(of_.ScratchBytes(params));
}

absl::Status CudaScratchMeter::Sample(const SampleParams& params) {
  return Note(of_.ScratchBytes(params));
}

absl::Status CudaScratchMeter::TopK(const TopKParams& params) {
  return Note(of_.ScratchBytes(params));
}

absl::Status CudaScratchMeter::SelectForest(const SelectForestParams& params) {
  return Note(SelectForestScratchBytes(params.max_requests));
}

}  // namespace bole::cuda
