// The tree convolution and the gated norm of one head by half a warp: bfloat16
// heads of 128 channels, 8 to a lane, 4 taps.
#ifndef BOLE_KERNELS_CUDA_GDN_GDN_CONV_CUH_
#define BOLE_KERNELS_CUDA_GDN_GDN_CONV_CUH_

#include <cstdint>

#include "kernels/cuda/bf16x8.cuh"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/gdn/gdn_gates.cuh"
#include "kernels/cuda/gdn/gdn_views.cuh"
#include "kernels/gdn.h"

namespace bole::cuda {

inline constexpr int kConvTaps = 4;
inline constexpr int kHeadDim = 128;
inline constexpr int kHeadLanes = kHeadDim / kVector;  // Half a warp.

// Whether heads of this shape can be read and written in whole vectors.
inline bool HasVectorHeads(const GdnShape& shape) {
  return shape.key_dim == kHeadDim && shape.value_dim == kHeadDim &&
         shape.projected_width() % kVector == 0;
}
inline bool FitsVectorConv(const GdnShape& shape) {
  return HasVectorHeads(shape) && shape.conv_taps == kConvTaps;
}

// The heads of a row in the order of the channels: queries, keys, values.
__host__ __device__ inline int NumConvHeads(const GdnShape& shape) {
  return 2 * shape.key_heads + shape.value_heads;
}

// The ancestors of a row, as numbers in its request's tree, from the nearest.
class Ancestors {
 public:
  // `node`: the number of the row itself.
  __device__ Ancestors(const RowBatch& batch, int row, int node)
      : words_(batch.mask_words),
        parent_(batch.parent + row - node),
        number_(node) {
    if (words_ == 0 || words_ > kWords) return;
    uint64_t word[kWords];
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      word[w] =
          w < words_
              ? __ldcg(&batch.ancestors[static_cast<int64_t>(row) * words_ + w])
              : 0;
    }
    low_ = word[0] | word[1] << 32;
    high_ = word[2] | word[3] << 32;
    Next();  // The row itself.
  }

  // Returns -1 after the last one.
  __device__ int Next() {
    if (words_ == 0) {
      number_ = max(number_ - 1, -1);
    } else if (words_ > kWords) {
      number_ = number_ < 0 ? -1 : __ldcg(&parent_[number_]);
    } else if (high_ != 0) {
      number_ = 127 - __clzll(static_cast<int64_t>(high_));
      high_ ^= uint64_t{1} << (number_ - 64);
    } else {  // No bits: -1.
      number_ = 63 - __clzll(static_cast<int64_t>(low_));
      if (number_ >= 0) low_ ^= uint64_t{1} << number_;
    }
    return number_;
  }

 private:
  static constexpr int kWords = 4;  // Longer masks are not read.

  const int words_;
  const int32_t* const parent_;
  int number_;
  uint64_t low_ = 0;  // Bits of the mask still to be returned.
  uint64_t high_ = 0;
};

// Where the raw values under a row's taps are, oldest first.
struct TapRows {
  static constexpr int kZero = -1 - kConvTaps;  // Before the sequence.

  int at[kConvTaps];  // A row of `projected`; or -1 - i, row i of the slot's
                      // window; or kZero.
  int slot;

  // The taps of a row that does not exist: all are before the sequence.
  __device__ static TapRows Nowhere() {
    return {.at = {kZero, kZero, kZero, kZero}, .slot = 0};
  }
  __device__ static TapRows Of(const RowBatch& batch, int row) {
    const int request = __ldcg(&batch.request[row]);
    const int node = __ldcg(&batch.node[row]);
    return Under(row, node, Ancestors(batch, row, node),
                 __ldcg(&batch.slot[request]),
                 __ldcg(&batch.committed[request]) == 0);
  }
  // `node` is the row's number; from_zero: nothing is before the tree.
  __device__ static TapRows Under(int row, int node, Ancestors ancestors,
                                  int slot, bool from_zero) {
    TapRows taps;
    taps.slot = slot;
    taps.at[kConvTaps - 1] = row;
    int back = 0;  // Window rows in use.
#pragma unroll
    for (int t = kConvTaps - 2; t >= 0; --t) {
      const int ancestor = ancestors.Next();
      if (ancestor >= 0) {
        taps.at[t] = row - node + ancestor;
      } else {
        ++back;
        taps.at[t] = from_zero ? kZero : -1 - (kConvTaps - back);
      }
    }
    return taps;
  }

  // Whether all but the last of these taps are the other row's taps after its
  // first.
  __device__ bool Follows(const TapRows& other) const {
    bool follows = slot == other.slot;
#pragma unroll
    for (int t = 0; t + 1 < kConvTaps; ++t) {
      follows = follows && at[t] == other.at[t + 1];
    }
    return follows;
  }

  // Returns the taps that another lane holds.
  __device__ TapRows FromLane(int lane) const {
    TapRows taps;
#pragma unroll
    for (int t = 0; t < kConvTaps; ++t) {
      taps.at[t] = __shfl_sync(0xffffffffu, at[t], lane);
    }
    taps.slot = __shfl_sync(0xffffffffu, slot, lane);
    return taps;
  }
};

// The weights of a lane's channels; no kernel writes them.
struct ConvWeights {
  float tap[kVector][kConvTaps];

  __device__ void Load(const float* conv_weight, int channel) {
#pragma unroll
    for (int c = 0; c < kVector; ++c) {
      Set(c, reinterpret_cast<const float4*>(conv_weight)[channel + c]);
    }
  }
  __device__ void Set(int c, const float4& w) {
    tap[c][0] = w.x;
    tap[c][1] = w.y;
    tap[c][2] = w.z;
    tap[c][3] = w.w;
  }
};

// x / (1 + e^-x), to a few roundoffs of float32.
__device__ inline float FastSilu(float x) {
  return __fdividef(x, 1.0f + __expf(-x));
}

// The lane's channels of a row after convolution and SiLU, rounded as they are
// stored.
__device__ inline uint4 Convolve(const ConvWeights& weights,
                                 const uint4 (&raw)[kConvTaps]) {
  float sum[kVector] = {};
#pragma unroll
  for (int t = 0; t < kConvTaps; ++t) {
    float x[kVector];
    Unpack(raw[t], x);
#pragma unroll
    for (int c = 0; c < kVector; ++c) {
      sum[c] = fmaf(weights.tap[c][t], x[c], sum[c]);
    }
  }
#pragma unroll
  for (int c = 0; c < kVector; ++c) sum[c] = FastSilu(sum[c]);
  return Pack(sum);
}

// The sum of squares of the head that the half warp holds, in all its lanes.
__device__ inline float SquaresOfHead(const float (&x)[kVector]) {
  float sum = 0;
#pragma unroll
  for (int c = 0; c < kVector; ++c) sum = fmaf(x[c], x[c], sum);
#pragma unroll
  for (int offset = kHeadLanes / 2; offset > 0; offset /= 2) {
    sum += __shfl_xor_sync(0xffffffffu, sum, offset);
  }
  return sum;
}

// 1 / |x| of a key or query, as it is stored.
__device__ inline float InverseNormOfHead(const uint4& head) {
  float x[kVector];
  Unpack(head, x);
  return 1.0f / sqrtf(SquaresOfHead(x) + kKeyNormEpsilon);
}

// The factor by which the gated norm scales a head, given the lane's elements.
__device__ inline float RmsScaleOfHead(const float (&o)[kVector],
                                       float epsilon) {
  const float mean = SquaresOfHead(o) / static_cast<float>(kHeadDim);
  return 1.0f / sqrtf(mean + epsilon);
}

// o * scale * weight * silu(z), rounded as it is stored.
__device__ inline uint4 GateNormed(const float (&o)[kVector], float scale,
                                   const float (&weight)[kVector],
                                   const float (&z)[kVector]) {
  float out[kVector];
#pragma unroll
  for (int c = 0; c < kVector; ++c) {
    out[c] = o[c] * scale * weight[c] * FastSilu(z[c]);
  }
  return Pack(out);
}

// The raw vectors under the taps of a lane's channels, the first of which is
// `channel`.
__device__ inline void LoadTaps(const GdnConvParams& p, const TapRows& taps,
                                int channel, uint4 (&raw)[kConvTaps]) {
  const BFloat16* window =
      SlotWindow<BFloat16>(p.shape, p.states, taps.slot, p.layer);
#pragma unroll
  for (int t = 0; t < kConvTaps; ++t) {
    const int at = taps.at[t];
    raw[t] = make_uint4(0, 0, 0, 0);
    if (at >= 0) {
      raw[t] = LoadVector(As<BFloat16>(p.projected) +
                          static_cast<int64_t>(at) * p.shape.projected_width() +
                          channel);
    } else if (at != TapRows::kZero) {
      raw[t] = LoadVector(window +
                          static_cast<int64_t>(-1 - at) * p.shape.conv_width() +
                          channel);
    }
  }
}

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_GDN_GDN_CONV_CUH_
