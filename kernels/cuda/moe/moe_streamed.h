// A mixture of experts for few rows, at the speed at which the chosen experts
// can be read: three launches, which hand over to each other while they read.
//
// A launch has one block on each multiprocessor, and every block reads about as
// many bytes as any other, whatever the experts that rows choose. There is no
// launch for the choice: a block of either product works it out from the
// logits for itself, which is faster than waiting for another kernel.
#ifndef BOLE_KERNELS_CUDA_MOE_MOE_STREAMED_H_
#define BOLE_KERNELS_CUDA_MOE_MOE_STREAMED_H_

#include "absl/status/status.h"
#include "kernels/cuda/moe/moe_kernels.h"
#include "kernels/cuda/operators.h"

namespace bole::cuda {

inline constexpr int kMaxStreamedMoeRows = 128;
inline constexpr int kMaxStreamedMoeExperts = 512;
inline constexpr int kMaxStreamedMoeChoices = 16;  // Experts of a row.

// bfloat16 on Hopper, with a capacity of few rows, a hidden size and widths in
// 256s, and room for all in a block's shared memory.
bool CanStreamMoe(const MoeTask& task, const Launch& on);

// The three launches, in this order, with the results of LaunchMoe(). Of the
// scratch they use `logits` and `inner`, of bfloat16, which has a row for each
// expert of a row of x: by expert in ascending order, then by row, and the
// shared expert's last. REQUIRES: CanStreamMoe().
absl::Status LaunchStreamedMoeLogits(const MoeTask& task, const Launch& on);
absl::Status LaunchStreamedMoeGateUp(const MoeTask& task, const Launch& on);
absl::Status LaunchStreamedMoeDown(const MoeTask& task, const Launch& on);

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_MOE_MOE_STREAMED_H_
