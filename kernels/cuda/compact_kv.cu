// Accepted keys and values move to where later rounds look.
#include <cstdint>

#include "kernels/cuda/check.h"
#include "kernels/cuda/kv_rows.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/operators.h"

namespace bole::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kMoves = 8;  // On their way at a time.

// Bytes move as they are, in units that divide a row of the pools.
struct Move {
  CompactKvParams p;
  int units;  // Per row.
};

// The loads before the stores.
template <typename Unit>
__device__ void MoveSome(Unit* pool, const int64_t* from, const int64_t* to,
                         int count) {
  Unit moved[kMoves];
#pragma unroll
  for (int j = 0; j < kMoves; ++j) {
    if (j < count && from[j] != to[j]) moved[j] = pool[from[j]];
  }
#pragma unroll
  for (int j = 0; j < kMoves; ++j) {
    if (j < count && from[j] != to[j]) pool[to[j]] = moved[j];
  }
}

// One request's path, kThreads entries at a time. A thread owns one unit of one
// layer and head, in k or in v, and takes the path in order, some entries at a
// time: nodes ascend and are not below their places, so nothing is overwritten
// before it has moved, and nothing moves twice.
//
// Grid: k's units and then v's, requests.
template <typename Unit>
__global__ void __launch_bounds__(kThreads) CompactKvKernel(Move move) {
  __shared__ int64_t from[kThreads];
  __shared__ int64_t to[kThreads];
  WaitForPrevious();
  StartNext();
  const CompactKvParams& p = move.p;
  const int request = blockIdx.y;
  const int first = p.path.first[request];
  const int last = p.path.first[request + 1];
  if (first == last) return;
  const KvRows rows(p.batch, p.shape, p.pages, request);
  const int committed = p.batch.committed[request];

  const int64_t column =
      static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const int64_t pool_columns =
      static_cast<int64_t>(p.num_layers) * p.shape.kv_heads * move.units;
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
      from[threadIdx.x] = rows.Row(committed + node) * move.units;
      to[threadIdx.x] = rows.Row(committed + i - first) * move.units;
    }
    // Also waits until `from` and `to` are there.
    if (__syncthreads_or(moves) == 0) continue;
    const int count = min(kThreads, last - begin);
    for (int j = 0; j < count && column < 2 * pool_columns; j += kMoves) {
      MoveSome(pool, from + j, to + j, min(kMoves, count - j));
    }
    __syncthreads();
  }
}

template <typename Unit>
absl::Status LaunchCompactKv(const CompactKvParams& params, int row_bytes,
                             const Launch& on) {
  const Move move = {.p = params,
                     .units = row_bytes / static_cast<int>(sizeof(Unit))};
  const int64_t columns =
      int64_t{2} * params.num_layers * params.shape.kv_heads * move.units;
  const dim3 grid(static_cast<unsigned>((columns + kThreads - 1) / kThreads),
                  params.batch.max_requests);
  return LaunchDependent("CompactKv", &CompactKvKernel<Unit>,
                         {.grid = grid, .block = kThreads}, on, move);
}

}  // namespace

absl::Status CompactKv(const CompactKvParams& params, const Launch& on) {
  if (params.num_layers == 0) return absl::OkStatus();
  const int row_bytes =
      params.shape.head_dim * static_cast<int>(ElementBytes(on.type));
  if (row_bytes % sizeof(uint4) == 0) {
    return LaunchCompactKv<uint4>(params, row_bytes, on);
  }
  if (row_bytes % sizeof(uint32_t) == 0) {
    return LaunchCompactKv<uint32_t>(params, row_bytes, on);
  }
  return LaunchCompactKv<uint16_t>(params, row_bytes, on);
}

}  // namespace bole::cuda
