// Accepted rows shifted into the windows of the convolution.
#include <cstdint>

#include "kernels/cuda/check.h"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/gdn_views.cuh"
#include "kernels/cuda/operators.h"

namespace bole::cuda {
namespace {

// The new window is the last conv_taps rows of the old one and the path's. A
// thread owns a channel, and reads what it moves before it writes.
template <typename T>
__global__ void WindowKernel(GdnCommitParams p) {
  const int channel = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const int layer = p.first_layer + static_cast<int>(blockIdx.y);
  const int request = blockIdx.z;
  const int first = p.path.first[request];
  const int count = p.path.first[request + 1] - first;
  if (count == 0 || channel >= p.shape.conv_width()) return;
  const FactorRows<T> factors(p.shape, p.factors, layer);
  T* window =
      SlotWindow<T>(p.shape, p.states, p.batch.slot[request], layer) + channel;
  const int taps = p.shape.conv_taps;
  const int64_t width = p.shape.conv_width();
  const bool from_zero = p.batch.committed[request] == 0;
  // Ascending, and count > 0: no row is overwritten before it has moved.
  for (int i = 0; i < taps; ++i) {
    const int from = i + count;
    T value = FromFloat<T>(0);
    if (from >= taps) {
      value = factors.raw(p.path.row[first + from - taps])[channel];
    } else if (!from_zero) {
      value = window[from * width];
    }
    window[i * width] = value;
  }
}

}  // namespace

absl::Status GdnCommitWindows(const GdnCommitParams& params, const Launch& on) {
  constexpr int kThreads = 256;
  const dim3 grid((params.shape.conv_width() + kThreads - 1) / kThreads,
                  params.num_layers, params.batch.max_requests);
  WithElement(on.type, [&](auto element) {
    using T = decltype(element);
    WindowKernel<T><<<grid, kThreads, 0, on.stream>>>(params);
  });
  return LaunchStatus("GdnCommitWindows");
}

}  // namespace bole::cuda
