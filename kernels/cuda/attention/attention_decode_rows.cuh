// Attention of single rows (attention_decode.cu): shared memory, and scores.
#ifndef BOLE_KERNELS_CUDA_ATTENTION_ATTENTION_DECODE_ROWS_CUH_
#define BOLE_KERNELS_CUDA_ATTENTION_ATTENTION_DECODE_ROWS_CUH_

#include <cmath>
#include <cstdint>

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/mma.cuh"

namespace bole::cuda {

inline constexpr int kDecodeWarps = 8;    // The warps that multiply.
inline constexpr int kDecodeTokens = 64;  // Tokens of a tile.
inline constexpr int kDecodeHeadDim = 256;
// Blocks of a cluster, and the dimensions that each of them merges.
inline constexpr int kDecodeCluster = 16;
inline constexpr int kMergedDims = kDecodeHeadDim / kDecodeCluster;
inline constexpr int kMaxTurns = 32;
// A tile in shared memory is blocks of 64 columns, whose rows of 128 bytes are
// swizzled.
inline constexpr int kDecodeBlockBytes = kDecodeTokens * 128;
inline constexpr int kDecodeTileBytes = kDecodeHeadDim / 64 * kDecodeBlockBytes;
inline constexpr int kDecodeSlots = 3;

// A block's shared memory. It leaves room on the multiprocessor for a block of
// a streamed product, also for one of a pair (kClusterBlockBytes).
template <int kHeads>
struct alignas(1024) DecodeShared {
  // Puts what lanes of different heads read into different banks.
  static constexpr int kPadding = 8;

  unsigned char slots[kDecodeSlots][kDecodeTileBytes];
  BFloat16 q[kHeads][kDecodeHeadDim + kPadding];
  BFloat16 k[kDecodeHeadDim];  // The row's own key.
  BFloat16 v[kDecodeHeadDim];
  float2 turn[kMaxTurns];
  // Two tiles' scores, times kDecodeExponent, and the largest of each warp. The
  // block's tiles alternate between the two halves.
  float scores[2][kHeads][kDecodeTokens];
  float largest[2][kHeads][kDecodeWarps];
  uint64_t full[kDecodeSlots];
  uint64_t empty[kDecodeSlots];
  uint64_t received;  // Counts the bytes of the members below.
  float2 weights[kDecodeCluster][kHeads];  // Largest score, sum.
  float2 out[kDecodeCluster][kHeads][kMergedDims / 2];
};

// exp(score / sqrt(256)) = 2^(kDecodeExponent score).
inline constexpr float kDecodeExponent = 1.44269504f / 16;
static_assert(kDecodeHeadDim == 256);

#if __CUDA_ARCH__ >= 900

// The part of the work that a block does.
struct DecodePlace {
  int row;
  int kv_head;
  int rank;  // In the cluster.
  int committed;
  int tiles;  // Tiles of all blocks of the cluster.

  __device__ bool owns_row() const { return tiles % kDecodeCluster == rank; }
};

__device__ inline int DecodeWarp() {
  return static_cast<int>(threadIdx.x) / 32;
}
// As in mma.cuh, a lane is 4 Group() + InGroup().
__device__ inline int Group() { return static_cast<int>(threadIdx.x) % 32 / 4; }
__device__ inline int InGroup() { return static_cast<int>(threadIdx.x) % 4; }

__device__ inline float PowerOfTwo(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// The address of 8 columns of a tile's row: the unit-th 8 of the row.
__device__ inline uint32_t UnitOfTile(uint32_t tile, int row, int unit) {
  return tile + unit / 8 * kDecodeBlockBytes + row * 128 +
         (unit % 8 ^ row % 8) * 16;
}

// The queries of all heads as a warp's left operands. With them the warp
// computes the scores of its 8 tokens, and the largest of these.
template <int kHeads>
struct QueryRows {
  uint32_t q[kDecodeHeadDim / 16][2];

  __device__ void Load(const DecodeShared<kHeads>& shared) {
    const bool has_head = Group() < kHeads;
    const auto* from = reinterpret_cast<const uint32_t*>(
        shared.q[has_head ? Group() : 0] + 2 * InGroup());
#pragma unroll
    for (int i = 0; i < kDecodeHeadDim / 16; ++i) {
      q[i][0] = has_head ? from[8 * i] : 0;
      q[i][1] = has_head ? from[8 * i + 4] : 0;
    }
  }

  __device__ void Score(const DecodePlace& place, int tile, uint32_t keys,
                        int turn, DecodeShared<kHeads>& shared) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int first = 8 * DecodeWarp();
    float sums[2][4] = {};
#pragma unroll
    for (int i = 0; i < kDecodeHeadDim / 32; ++i) {
      uint32_t k[4];
      LoadMatrices(UnitOfTile(keys, first + lane % 8, 4 * i + lane / 8), k);
      MultiplyAdd(sums[0], {q[2 * i][0], 0, q[2 * i][1], 0}, k[0], k[1]);
      MultiplyAdd(sums[1], {q[2 * i + 1][0], 0, q[2 * i + 1][1], 0}, k[2],
                  k[3]);
    }
    const int token = first + 2 * InGroup();
    float scores[2];
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const bool exists = tile * kDecodeTokens + token + e < place.committed;
      scores[e] =
          exists ? (sums[0][e] + sums[1][e]) * kDecodeExponent : -INFINITY;
    }
    float largest = fmaxf(scores[0], scores[1]);
    largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 1));
    largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 2));
    if (Group() >= kHeads) return;
    float* to = shared.scores[turn][Group()] + token;
    to[0] = scores[0];
    to[1] = scores[1];
    if (InGroup() == 0) shared.largest[turn][Group()][DecodeWarp()] = largest;
  }

  // The score of the row's own key with head Group(), if there is such a head.
  __device__ float ScoreOwn(const DecodeShared<kHeads>& shared) const {
    const auto* k = reinterpret_cast<const uint32_t*>(shared.k + 2 * InGroup());
    float sums[4] = {};
#pragma unroll
    for (int i = 0; i < kDecodeHeadDim / 16; ++i) {
      MultiplyAdd(sums, {q[i][0], 0, q[i][1], 0}, k[8 * i], k[8 * i + 4]);
    }
    return sums[0] * kDecodeExponent;
  }
};

#endif

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_ATTENTION_ATTENTION_DECODE_ROWS_CUH_
