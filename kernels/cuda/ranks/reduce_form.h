// The form in which the ranks' parts become a sum on every rank.
#ifndef BOLE_KERNELS_CUDA_RANKS_REDUCE_FORM_H_
#define BOLE_KERNELS_CUDA_RANKS_REDUCE_FORM_H_

#include <cstddef>

namespace bole::cuda {

// Both give the same bits.
enum class ReduceForm {
  kOneShot,  // Every rank sends its part to all others, and adds up all parts.
  kTwoShot,  // Every rank adds up its share of each row and sends it to all.
};

// The form that is expected to take less time for rows of `bytes` bytes in all.
// Each form takes a fixed time plus the time of what a GPU sends through its
// links; what both take is left out. All ranks must use the same form.
constexpr ReduceForm FasterReduceForm(int num_ranks, size_t bytes) {
  constexpr double kBytesPerMicrosecond = 360e3;
  constexpr double kOneShotStart = 3.4;  // Microseconds.
  constexpr double kTwoShotStart = 4.4;
  const double once = static_cast<double>(bytes) / kBytesPerMicrosecond;
  const int others = num_ranks - 1;
  const double one_shot = kOneShotStart + others * once;
  const double two_shot = kTwoShotStart + 2.0 * others / num_ranks * once;
  return two_shot < one_shot ? ReduceForm::kTwoShot : ReduceForm::kOneShot;
}

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_RANKS_REDUCE_FORM_H_
