// Shifts accepted rows into the windows of the convolution.
#include "kernels/cuda/gdn/gdn_windows.cuh"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/operators.h"

namespace bole::cuda {
namespace {

constexpr int kThreads = 128;

// Grid: words of a row, layers, requests.
template <typename Word>
__global__ void __launch_bounds__(kThreads)
    WindowKernel(const __grid_constant__ GdnCommitParams p, int row_words) {
  WaitForPrevious();
  StartNext();
  const int word = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  const int request = blockIdx.z;
  const int first = p.path.first[request];
  const int count = p.path.first[request + 1] - first;
  if (count == 0 || word >= row_words) return;
  const int layer = p.first_layer + static_cast<int>(blockIdx.y);
  ShiftWindow<Word>(
      {.raw = reinterpret_cast<const Word*>(p.factors.raw) +
              static_cast<int64_t>(layer) * p.factors.layer_rows * row_words +
              word,
       .path = p.path.row + first,
       .count = count,
       .from_zero = p.batch.committed[request] == 0,
       .window =
           reinterpret_cast<Word*>(p.states.window) +
           (static_cast<int64_t>(p.batch.slot[request]) * p.states.num_layers +
            layer) *
               p.shape.conv_taps * row_words +
           word,
       .taps = p.shape.conv_taps,
       .row_words = row_words});
}

template <typename Word>
absl::Status LaunchWindows(const GdnCommitParams& params, int row_words,
                           const Launch& on) {
  const dim3 grid((row_words + kThreads - 1) / kThreads, params.num_layers,
                  params.batch.max_requests);
  return LaunchDependent("GdnCommitWindows", WindowKernel<Word>,
                         {.grid = grid, .block = kThreads}, on, params,
                         row_words);
}

}  // namespace

absl::Status GdnCommitWindows(const GdnCommitParams& params, const Launch& on) {
  if (params.shape.conv_taps > kMaxWindowTaps) {
    return absl::UnimplementedError(
        absl::StrCat("GdnCommitWindows: ", params.shape.conv_taps,
                     " taps; the kernel holds up to ", kMaxWindowTaps));
  }
  const int row_bytes =
      static_cast<int>(params.shape.conv_width() * ElementBytes(on.type));
  if (row_bytes % sizeof(uint4) == 0) {
    return LaunchWindows<uint4>(params, row_bytes / sizeof(uint4), on);
  }
  return LaunchWindows<uint16_t>(params, row_bytes / sizeof(uint16_t), on);
}

}  // namespace bole::cuda
