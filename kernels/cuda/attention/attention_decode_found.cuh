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

// A lane's partial result for head Group(), if that head exists: a part of the
// sum of the weights, and the weighted values of dimensions
// 8 j + 2 InGroup() + i, i < 2, of the warp's 32. Weights are relative to
// `largest`, which is the block's.
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

  __device__ void Begin() {
    largest = -INFINITY;
    sum = 0;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) out[j][i] = 0;
    }
  }

  // Makes weights relative to `now`, which is not below the old `largest`.
  __device__ void Rescale(float now) {
    // While no score is finite, the difference would be NaN.
    const float scale = now == -INFINITY ? 0.0f : PowerOfTwo(largest - now);
    largest = now;
    sum *= scale;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      out[j][0] *= scale;
      out[j][1] *= scale;
    }
  }
  // The largest score so far, once the scores of the tile have been written.
  __device__ float Largest(int turn, const DecodeShared<kHeads>& shared) const {
    float now = largest;
#pragma unroll
    for (int warp = 0; warp < kDecodeWarps; ++warp) {
      now = fmaxf(now, shared.largest[turn][Head()][warp]);
    }
    return now;
  }

  // The weights of two tokens. They are 0 if the lane has no head, or if no
  // score so far is finite.
  __device__ uint32_t WeightsOf(float2 scores) {
    const bool is_hidden = !HasHead() || largest == -INFINITY;
    const float a = is_hidden ? 0.0f : PowerOfTwo(scores.x - largest);
    const float b = is_hidden ? 0.0f : PowerOfTwo(scores.y - largest);
    sum += a + b;
    return PackTwo(a, b);
  }

  // Adds a tile's weighted values. Those of tokens that are not committed may
  // be anything, also NaN, so they are replaced by 0.
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

  // Adds the row's own token.
  __device__ void AddOwn(float score, const DecodeShared<kHeads>& shared) {
    Rescale(fmaxf(largest, score));
    const float weight = PowerOfTwo(score - largest);
    if (InGroup() == 0) sum += weight;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      out[j][0] += weight * ToFloat(shared.v[Dim(j)]);
      out[j][1] += weight * ToFloat(shared.v[Dim(j) + 1]);
    }
  }

  // Sends the result to the blocks that merge it, which must have started.
  __device__ void Send(const DecodePlace& place, DecodeShared<kHeads>& shared) {
    sum += __shfl_xor_sync(~0u, sum, 1);
    sum += __shfl_xor_sync(~0u, sum, 2);
    if (!HasHead()) return;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int to = Dim(j) / kMergedDims;
      float2* pair = &shared.out[place.rank][Head()][Dim(j) % kMergedDims / 2];
      SendAsync(pair, make_float2(out[j][0], out[j][1]), &shared.received, to);
    }
    float2* weights = &shared.weights[place.rank][Head()];
    const int to = 4 * DecodeWarp() + InGroup();
    if (to >= kDecodeCluster) return;
    SendAsync(weights, make_float2(largest, sum), &shared.received, to);
  }
};

// The two dimensions of a head that a thread merges. Some threads have none.
template <int kHeads>
struct MergedPair {
  static constexpr int kPairs = kMergedDims / 2;  // Pairs of one head.
  static_assert(kHeads * kPairs <= 32 * kDecodeWarps);

  int head = static_cast<int>(threadIdx.x) / kPairs;
  int pair = static_cast<int>(threadIdx.x) % kPairs;
  uint32_t gates = 0;

  __device__ bool exists() const { return head < kHeads; }
  __device__ int64_t QueryHead(const DecodePlace& place) const {
    return place.kv_head * kHeads + head;
  }
  __device__ int Dim(const DecodePlace& place) const {
    return place.rank * kMergedDims + 2 * pair;
  }

  // Called as soon as the projection is available, because nothing would hide
  // the latency of the load at the end.
  __device__ void LoadGates(const AttentionParams& p,
                            const DecodePlace& place) {
    if (!exists()) return;
    gates = *reinterpret_cast<const uint32_t*>(
        As<BFloat16>(p.projected) +
        static_cast<int64_t>(place.row) * p.shape.projected_width() +
        (2 * QueryHead(place) + 1) * kDecodeHeadDim + Dim(place));
  }

  // Merges what all blocks have sent, and stores it with its gates applied.
  __device__ void Store(const AttentionParams& p, const DecodePlace& place,
                        const DecodeShared<kHeads>& shared) const {
    if (!exists()) return;
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
    const int64_t at = static_cast<int64_t>(place.row) * p.shape.query_heads +
                       QueryHead(place);
    *reinterpret_cast<uint32_t*>(As<BFloat16>(p.out) + at * kDecodeHeadDim +
                                 Dim(place)) = PackTwo(a, b);
  }
};

#endif

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_ATTENTION_ATTENTION_DECODE_FOUND_CUH_
