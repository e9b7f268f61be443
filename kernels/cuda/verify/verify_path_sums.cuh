// Sums of log decays along the paths of a tree, by a warp.
#ifndef BOLE_KERNELS_CUDA_VERIFY_VERIFY_PATH_SUMS_CUH_
#define BOLE_KERNELS_CUDA_VERIFY_VERIFY_PATH_SUMS_CUH_

#include <cstdint>

namespace bole::cuda {

// A sum of two floats, the second no more than half a unit of the first's last
// place: 48 bits, and faster than doubles where few are summed.
struct PairSum {
  float high;
  float low;

  __device__ __forceinline__ PairSum operator+(const PairSum& other) const {
    const float sum = high + other.high;
    const float of_other = sum - high;
    const float error = (high - (sum - of_other)) + (other.high - of_other);
    return Of(sum, error + (low + other.low));
  }
  // |x| >= |y|
  __device__ static __forceinline__ PairSum Of(float x, float y) {
    const float sum = x + y;
    return {sum, y - (sum - x)};
  }
  // Times log2(e).
  __device__ __forceinline__ PairSum InPowersOfTwo() const {
    constexpr float kHigh = 1.44269502f;
    constexpr float kLow = 1.92596299e-8f;
    const float product = __fmul_rn(high, kHigh);
    const float error = fmaf(high, kHigh, -product);
    return Of(product, fmaf(high, kLow, fmaf(low, kHigh, error)));
  }
};

// Sums over the paths of up to 128 nodes, of which each lane has nodes lane +
// 32 n. bits: word w of the ancestors of each node, all of which come before
// it. sums: the values of the nodes become those of their paths.
template <int kPerLane>
class PathSums {
 public:
  // In each step, a node's sum covers twice as much of its path as before: the
  // node adds the sum of the nearest ancestor that its own sum does not
  // include.
  __device__ static void Add(const uint32_t (&bits)[kPerLane][kPerLane],
                             PairSum (&sums)[kPerLane]) {
    Add(Parents(bits), sums);
  }
  // nearest: the parents.
  __device__ static void Add(uint32_t nearest, PairSum (&sums)[kPerLane]) {
    while (__any_sync(~0u, nearest != ~0u) != 0) {
      PairSum further[kPerLane] = {};
      uint32_t next = kUnused;
#pragma unroll
      for (int n = 0; n < kPerLane; ++n) {
        const uint32_t from = Byte(nearest, n);
        const uint32_t theirs = __shfl_sync(~0u, nearest, from);
#pragma unroll
        for (int m = 0; m <= n; ++m) {
          const PairSum sum = {__shfl_sync(~0u, sums[m].high, from),
                               __shfl_sync(~0u, sums[m].low, from)};
          if (from / 32 == m) further[n] = sum;
        }
        next |= (from == kNone ? kNone : Byte(theirs, from / 32)) << 8 * n;
      }
#pragma unroll
      for (int n = 0; n < kPerLane; ++n) sums[n] = sums[n] + further[n];
      nearest = next;
    }
  }

  // The parents of the lane's nodes, a byte each.
  __device__ static uint32_t Parents(
      const uint32_t (&bits)[kPerLane][kPerLane]) {
    const uint32_t before = (1u << threadIdx.x % 32) - 1;
    uint32_t parents = kUnused;
#pragma unroll
    for (int n = 0; n < kPerLane; ++n) {
      uint32_t parent = kNone;
#pragma unroll
      for (int w = 0; w <= n; ++w) {
        const uint32_t others = bits[n][w] & (w < n ? ~0u : before);
        if (others != 0) parent = 32 * w + 31 - __clz(others);
      }
      parents |= parent << 8 * n;
    }
    return parents;
  }

 private:
  static constexpr uint32_t kNone = 255;
  // Bytes that belong to no node.
  static constexpr uint32_t kUnused = kPerLane < 4 ? ~0u << 8 * kPerLane : 0;

  __device__ static uint32_t Byte(uint32_t bytes, uint32_t n) {
    return bytes >> 8 * n & 255;
  }
};

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_VERIFY_VERIFY_PATH_SUMS_CUH_
