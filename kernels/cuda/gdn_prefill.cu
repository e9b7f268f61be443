// Prefill of chains.
#include "kernels/cuda/gdn_plain.h"
#include "kernels/cuda/operators.h"

namespace bole::cuda {

absl::Status GdnPrefill(const GdnCoreParams& params, const Launch& on) {
  return RunRows("GdnPrefill", params, on);
}

}  // namespace bole::cuda
