// Moves the accepted keys and values of a request to where later rounds look
// for them.
#ifndef BOLE_KERNELS_CUDA_ATTENTION_COMPACT_KV_CUH_
#define BOLE_KERNELS_CUDA_ATTENTION_COMPACT_KV_CUH_

#include <cstdint>

#include "kernels/attention.h"
#include "kernels/cuda/attention/kv_rows.cuh"

namespace bole::cuda {

inline constexpr int kKvMoves = 8;  // Moves in flight at a time.

// Bytes move as they are, in units that divide a row of the pools.
struct KvMove {
  CompactKvParams p;
  int units;  // Per row.

  // Units of all layers and heads in one of the pools.
  __host__ __device__ int64_t pool_columns() const {
    return static_cast<int64_t>(p.num_layers) * p.shape.kv_heads * units;
  }
};

// The sources and destinations of path entries, for a block of kThreads.
template <int kThreads>
struct KvPlaces {
  int64_t from[kThreads];
  int64_t to[kThreads];
};

// Moves up to kKvMoves units, with all loads before the stores.
template <typename Unit>
__device__ void MoveSome(Unit* pool, const int64_t* from, const int64_t* to,
                         int count) {
  Unit moved[kKvMoves];
#pragma unroll
  for (int j = 0; j < kKvMoves; ++j) {
    if (j < count && from[j] != to[j]) moved[j] = pool[from[j]];
  }
#pragma unroll
  for (int j = 0; j < kKvMoves; ++j) {
    if (j < count && from[j] != to[j]) pool[to[j]] = moved[j];
  }
}

// Moves one request's path, kThreads entries at a time. A thread owns one unit
// of one layer and head, in k or, from pool_columns() on, in v. It processes
// the path in order, some entries at a time. Nodes ascend and are not below
// their destinations, so nothing is overwritten before it has moved, and
// nothing moves twice. Called by all threads of the block.
template <typename Unit, int kThreads>
__device__ void MovePath(const KvMove& move, int request, int64_t column,
                         KvPlaces<kThreads>& places) {
  const CompactKvParams& p = move.p;
  const int first = p.path.first[request];
  const int last = p.path.first[request + 1];
  const KvRows rows(p.batch, p.shape, p.pages, request);
  const int committed = p.batch.committed[request];
  const int64_t pool_columns = move.pool_columns();
  const int64_t pool_column = column % pool_columns;
  const int head = static_cast<int>(pool_column / move.units);
  Unit* pool =
      reinterpret_cast<Unit*>(column < pool_columns ? p.pages.k : p.pages.v) +
      rows.Distance(head / p.shape.kv_heads, head % p.shape.kv_heads) *
          move.units +
      pool_column % move.units;

  for (int begin = first; begin < last; begin += kThreads) {
    const int i = begin + static_cast<int>(threadIdx.x);
    bool moves = false;
    if (i < last) {
      const int node = p.batch.node[p.path.row[i]];
      moves = node != i - first;
      places.from[threadIdx.x] = rows.Row(committed + node) * move.units;
      places.to[threadIdx.x] = rows.Row(committed + i - first) * move.units;
    }
    // Also waits until `places` has been written.
    if (__syncthreads_or(moves) == 0) continue;
    const int count = min(kThreads, last - begin);
    for (int j = 0; j < count && column < 2 * pool_columns; j += kKvMoves) {
      MoveSome(pool, places.from + j, places.to + j, min(kKvMoves, count - j));
    }
    __syncthreads();
  }
}

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_ATTENTION_COMPACT_KV_CUH_
