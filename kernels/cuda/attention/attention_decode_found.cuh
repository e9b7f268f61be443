// Attention of single rows (attention_decode.cu): weighted values, and how the
// blocks of a cluster merge them.
#ifndef BOLE_KERNELS_CUDA_ATTENTION_ATTENTION_DECODE_FOUND_CUH_
#define BOLE_KERNELS_CUDA_ATTENTION_ATTENTION_DECODE_FOUND_CUH_

#include <cmath>
#include <cstdint>

#include "kernels/attention.h"
#include "kernels/cuda/attention/attention_decode_rows.cuh"
#include "kernels/cuda/bf16x8.cuh"
#include "kernels/cuda/cluster.cuh"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/mma.cuh"

namespace bole::cuda {

#if __CUDA_ARCH__ >= 900

// What a lane has found of head Group(), where there is one: a part of the sum
// of the weights, and the weighted values of dimensions 8 j + 2 InGroup() + i,
// i < 2, of the warp's 32. Weights are relative to `largest`, which is the
// block's.
template <int kHeads>
struct FoundOfRow {
  float largest;
  float sum;
  float out[4][4];  // [j][i]

  __device__ static bool HasHead() { return Group() < kHeads; }
  __device__ static int Head() { return HasHead() ? Group() : 0; }
  __device__ static int Dim(int j) {
    return 32 * DecodeWarp() + 8 * j + 2 * InGroup();
  }

  // Of the row itself, if it is this block's.
  __device__ void Begin(const DecodePlace& place,
                        const DecodeShared<kHeads>& shared) {
    const bool owns = place.owns_row();
    largest = owns ? shared.own_score[Head()] : -INFINITY;
    sum = owns && InGroup() == 0 ? 1.0f : 0.0f;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      out[j][0] = owns ? ToFloat(shared.v[Dim(j)]) : 0.0f;
      out[j][1] = owns ? ToFloat(shared.v[Dim(j) + 1]) : 0.0f;
      out[j][2] = 0;
      out[j][3] = 0;
    }
  }

  __device__ void Rescale(int turn, const DecodeShared<kHeads>& shared) {
    float now = largest;
#pragma unroll
    for (int warp = 0; warp < kDecodeWarps; ++warp) {
      now = fmaxf(now, shared.largest[turn][Head()][warp]);
    }
    // Nothing of nothing.
    const float scale = now == -INFINITY ? 0.0f : PowerOfTwo(largest - now);
    largest = now;
    sum *= scale;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      out[j][0] *= scale;
      out[j][1] *= scale;
    }
  }

  // The weights of two tokens; none of no head.
  __device__ uint32_t WeightsOf(float2 scores) {
    const bool is_hidden = !HasHead() || largest == -INFINITY;
    const float a = is_hidden ? 0.0f : PowerOfTwo(scores.x - largest);
    const float b = is_hidden ? 0.0f : PowerOfTwo(scores.y - largest);
    sum += a + b;
    return PackTwo(a, b);
  }

  // Values of tokens that are not committed may be anything, also NaN: they
  // become 0.
  __device__ void Add(const DecodePlace& place, int tile, uint32_t values,
                      int turn, const DecodeShared<kHeads>& shared) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const float* scores = shared.scores[turn][Head()] + 2 * InGroup();
    const int left = place.committed - tile * kDecodeTokens - 2 * InGroup();
    const auto used = [&](int token, uint32_t word) {
      return left >= token + 2 ? word : left > token ? word & 0xffff : 0;
    };
#pragma unroll
    for (int i = 0; i < kDecodeTokens / 16; ++i) {
      const auto* pairs = reinterpret_cast<const float2*>(scores + 16 * i);
      const uint32_t near = WeightsOf(pairs[0]);
      const uint32_t far = WeightsOf(pairs[4]);
#pragma unroll
      for (int j = 0; j < 4; j += 2) {
        uint32_t v[4];
        LoadTransposed(UnitOfTile(values, 16 * i + lane % 16,
                                  4 * DecodeWarp() + j + lane / 16),
                       v);
        MultiplyAdd(out[j], {near, 0, far, 0}, used(16 * i, v[0]),
                    used(16 * i + 8, v[1]));
        MultiplyAdd(out[j + 1], {near, 0, far, 0}, used(16 * i, v[2]),
                    used(16 * i + 8, v[3]));
      }
    }
  }

  // To the blocks that merge it, which have started.
  __device__ void Send(const DecodePlace& place, DecodeShared<kHeads>& shared) {
    sum += __shfl_xor_sync(~0u, sum, 1);
    sum += __shfl_xor_sync(~0u, sum, 2);
    if (!HasHead()) return;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int to = Dim(j) / kMergedDims;
      float2* pair = &shared.out[place.rank][Head()][Dim(j) % kMergedDims / 2];
      SendAsync(&pair->x, out[j][0], &shared.received, to);
      SendAsync(&pair->y, out[j][1], &shared.received, to);
    }
    float2* weights = &shared.weights[place.rank][Head()];
    const int to = 4 * DecodeWarp() + InGroup();
    if (to >= kDecodeCluster) return;
    SendAsync(&weights->x, largest, &shared.received, to);
    SendAsync(&weights->y, sum, &shared.received, to);
  }
};

// What all blocks have found, two dimensions of a head a thread, gated.
template <int kHeads>
__device__ void MergeRow(const AttentionParams& p, const DecodePlace& place,
                         const DecodeShared<kHeads>& shared) {
  constexpr int kPairs = kMergedDims / 2;  // Of a head.
  static_assert(kHeads * kPairs <= 32 * kDecodeWarps);
  const int head = static_cast<int>(threadIdx.x) / kPairs;
  const int pair = static_cast<int>(threadIdx.x) % kPairs;
  if (head >= kHeads) return;
  const AttentionShape& s = p.shape;
  const int64_t query_head = place.kv_head * kHeads + head;
  const int dim = place.rank * kMergedDims + 2 * pair;
  const uint32_t gates = *reinterpret_cast<const uint32_t*>(
      As<BFloat16>(p.projected) +
      static_cast<int64_t>(place.row) * s.projected_width() +
      (2 * query_head + 1) * kDecodeHeadDim + dim);
  WaitBarrier(AddressOf(&shared.received), 0);
  float largest = -INFINITY;
#pragma unroll
  for (int part = 0; part < kDecodeCluster; ++part) {
    largest = fmaxf(largest, shared.weights[part][head].x);
  }
  float sum = 0;
  float2 out = {};
#pragma unroll
  for (int part = 0; part < kDecodeCluster; ++part) {
    const float2 weights = shared.weights[part][head];
    const float scale = PowerOfTwo(weights.x - largest);
    const float2 x = shared.out[part][head][pair];
    sum += scale * weights.y;
    out.x += scale * x.x;
    out.y += scale * x.y;
  }
  const float a = out.x / sum * Sigmoid(FirstOfTwo(gates));
  const float b = out.y / sum * Sigmoid(SecondOfTwo(gates));
  *reinterpret_cast<uint32_t*>(
      As<BFloat16>(p.out) +
      (static_cast<int64_t>(place.row) * s.query_heads + query_head) *
          kDecodeHeadDim +
      dim) = PackTwo(a, b);
}

#endif

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_ATTENTION_ATTENTION_DECODE_FOUND_CUH_
