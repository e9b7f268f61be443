// The loads of a block of the scan over chunks: rows of keys, queries and
// values, and the chunks' records, some chunks in advance (sm_90a only).
#ifndef BOLE_KERNELS_CUDA_PREFILL_GDN_CHUNK_LOADS_CUH_
#define BOLE_KERNELS_CUDA_PREFILL_GDN_CHUNK_LOADS_CUH_

#include <cstdint>

#include "kernels/cuda/bf16x8.cuh"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/gdn/gdn_views.cuh"
#include "kernels/cuda/prefill/chunk_ring.cuh"
#include "kernels/cuda/prefill/chunk_tiles.cuh"
#include "kernels/cuda/prefill/gdn_chunks.cuh"
#include "kernels/cuda/prefill/gdn_chunks.h"

namespace bole::cuda {

inline constexpr int kScanStages = 3;
inline constexpr int kScanDim = 128;
inline constexpr int kGroupValues = 32;  // Values of a warpgroup.
inline constexpr int kLoaders = 128;     // Threads.
inline constexpr int kTileBytes = kChunkRows * kTileRowBytes;
inline constexpr int kRowsHalfBytes = 2 * kTileBytes;

struct alignas(1024) ScanStage {
  // For each half of dk: the keys of all rows, then the queries.
  unsigned char rows[2][kRowsHalfBytes];
  unsigned char values[kTileBytes];  // Outputs overwrite them.
  alignas(1024) ChunkRecord record;
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

template <int kGroups>
struct ScanWorkspace {
  ScanStage stages[kScanStages];
  Ring<kScanStages, kLoaders, 4 * kGroups> ring;
};

// The part of the work that a block does.
struct HeadTile {
  int request;
  int head;
  int key_head;
  int first_value;
  int num_values;  // 32 for each warpgroup.
  ChunkRange chunks;
};

// Loads one thread's share of the rows of chunk i, with zeros after the last.
__device__ inline void LoadRows(const GdnCoreParams& p, const HeadTile& tile,
                                int i, ScanStage& stage) {
  const FactorRows<BFloat16> factors(p.shape, p.factors, p.layer);
  const int thread = static_cast<int>(threadIdx.x) % kLoaders;
  const int vector = thread % 8;
  const int first_row = tile.chunks.first_row_of(i);
  const int count = tile.chunks.rows_of(i);
  const uint32_t rows = SharedBytes(stage.rows);
  const uint32_t values = SharedBytes(stage.values);
#pragma unroll
  for (int r = thread / 8; r < kChunkRows; r += kLoaders / 8) {
    const bool is_there = r < count;
    const int row = first_row + (is_there ? r : 0);
    const int64_t key_row =
        static_cast<int64_t>(row) * p.shape.key_heads + tile.key_head;
    const BFloat16* k = factors.k(row, tile.key_head) + vector * kVector;
    const BFloat16* q =
        As<BFloat16>(p.q) + key_row * kScanDim + vector * kVector;
    const BFloat16* v =
        factors.v(row, tile.head) + tile.first_value + vector * kVector;
    const int at = TileOffset(r, vector);
    CopyVectorAsync(rows + at, k, is_there);
    CopyVectorAsync(rows + kRowsHalfBytes + at, k + 64, is_there);
    CopyVectorAsync(rows + kTileBytes + at, q, is_there);
    CopyVectorAsync(rows + kRowsHalfBytes + kTileBytes + at, q + 64, is_there);
    if (vector * kVector < tile.num_values) {
      CopyVectorAsync(values + at, v, is_there);
    }
  }
}

template <int kGroups>
__device__ void LoadChunks(const GdnCoreParams& p, const HeadTile& tile,
                           const ChunkRecord* records,
                           ScanWorkspace<kGroups>& w) {
  for (int i = 0; tile.chunks.rows_of(i) > 0; ++i) {
    ScanStage& stage = w.stages[i % kScanStages];
    w.ring.WaitEmpty(i);
    if (threadIdx.x % kLoaders == 0) {
      const int64_t number = tile.chunks.first_number + i;
      w.ring.CopyBytes(i, &stage.record,
                       records + number * p.shape.value_heads + tile.head,
                       sizeof(ChunkRecord));
    }
    LoadRows(p, tile, i, stage);
    w.ring.FinishCopies(i);
  }
}

#endif

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_PREFILL_GDN_CHUNK_LOADS_CUH_
