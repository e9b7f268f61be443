#ifndef BOLE_KERNELS_CUDA_DRAFT_INPUTS_H_
#define BOLE_KERNELS_CUDA_DRAFT_INPUTS_H_

#include "absl/status/status.h"
#include "kernels/cuda/operators.h"
#include "kernels/draft_inputs.h"

namespace bole::cuda {

// `table`: [V, width] elements.
absl::Status DraftInputs(const DraftInputsParams& params, const void* table,
                         const Launch& on);

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_DRAFT_INPUTS_H_
