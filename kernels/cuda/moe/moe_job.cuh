// One warp's job in a mixture's products, chunk by chunk.
#ifndef BOLE_KERNELS_CUDA_MOE_MOE_JOB_CUH_
#define BOLE_KERNELS_CUDA_MOE_MOE_JOB_CUH_

#include <cstdint>

#include "kernels/cuda/bf16x8.cuh"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/moe/moe_lanes.cuh"
#include "kernels/cuda/moe/moe_stream_block.cuh"
#include "kernels/cuda/moe/moe_weight_ring.cuh"

namespace bole::cuda::moe {

// One job: sum[b][i] = rows 16 i to 16 i + 15 of the weights by rows 8 b to
// 8 b + 7 of x, as mma.cuh lays it out. rows[b] is row Lane() / 4 of those, at
// this lane's first column, Lane() % 4 * kVector. `columns` is a multiple of
// kChunkColumns; `stages` has them chunk by chunk.
//
// An item is kItemColumns of a block of rows; the operands of two items are
// loaded ahead. Where there are two blocks, they take turns.
template <int kBlocks, int kSets, int kStages>
__device__ void RunJob(WeightRing<kSets, kStages>& ring,
                       const JobStages& stages,
                       const BFloat16* const (&rows)[kBlocks], int columns,
                       float (&sum)[kBlocks][(kSets + 1) / 2][4]) {
  constexpr int kItems = 2;
  constexpr int kTiles = (kSets + 1) / 2;
  static_assert(kBlocks == 1 || kBlocks == kItems);
  constexpr int kColumns = kItems / kBlocks * kItemColumns;
  uint4 x[kItems][kItemSpans];
  const auto load = [&](int item, int begin) {
    const int column = begin + item / kBlocks * kItemColumns;
#pragma unroll
    for (int s = 0; s < kItemSpans; ++s) {
      x[item][s] = LoadVector(rows[item % kBlocks] + column + s * kSpanColumns);
    }
  };
#pragma unroll
  for (int i = 0; i < kItems; ++i) load(i, 0);
  float even[kBlocks][kTiles][4] = {};  // Sums of every other span.
  float odd[kBlocks][kTiles][4] = {};
  for (int begin = 0; begin < columns; begin += kColumns) {
    const int stage = stages.first + begin / kChunkColumns * stages.step;
    const int in_stage = begin % kChunkColumns;
    if (in_stage == 0) ring.Wait(stage);
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
      const int column = i / kBlocks * kItemColumns;
#pragma unroll
      for (int first = 0; first < kItemSpans; first += 2) {
        uint4 weights[2][kSets];
        ring.Read(stage, (in_stage + column) / kSpanColumns + first,
                  weights[0]);
        ring.Read(stage, (in_stage + column) / kSpanColumns + first + 1,
                  weights[1]);
#pragma unroll
        for (int tile = 0; tile < kTiles; ++tile) {
          const bool has_high = 2 * tile + 1 < kSets;
          const int high = has_high ? 2 * tile + 1 : 0;
          const uint4 none = make_uint4(0, 0, 0, 0);
          MultiplySpan(even[i % kBlocks][tile], weights[0][2 * tile],
                       has_high ? weights[0][high] : none, x[i][first]);
          MultiplySpan(odd[i % kBlocks][tile], weights[1][2 * tile],
                       has_high ? weights[1][high] : none, x[i][first + 1]);
        }
      }
      if (begin + kColumns < columns) load(i, begin + kColumns);
    }
    if (in_stage + kColumns == kChunkColumns) ring.Release(stage);
  }
#pragma unroll
  for (int b = 0; b < kBlocks; ++b) {
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {
#pragma unroll
      for (int n = 0; n < 4; ++n) sum[b][i][n] = even[b][i][n] + odd[b][i][n];
    }
  }
}

}  // namespace bole::cuda::moe

#endif  // BOLE_KERNELS_CUDA_MOE_MOE_JOB_CUH_
