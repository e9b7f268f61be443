// The end of tiled attention: the partial results that the blocks of a cluster,
// and then clusters, have for the same rows are merged in a fixed order, gated
// and stored. The code is kept short, because it is not in the instruction
// cache when a launch begins.
#ifndef BOLE_KERNELS_CUDA_ATTENTION_ATTENTION_MERGE_CUH_
#define BOLE_KERNELS_CUDA_ATTENTION_ATTENTION_MERGE_CUH_

#include <cstdint>

#include "kernels/cuda/attention/attention_parts.cuh"
#include "kernels/cuda/attention/attention_ring.cuh"
#include "kernels/cuda/attention/attention_work.cuh"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/hopper.cuh"

namespace bole::cuda {

// Where a cluster stores a partial row in scratch: [groups, N, Hq].
__device__ inline PartialRow* RowInScratch(const TileArgs& args, int group,
                                           int64_t head_row) {
  const int64_t rows =
      static_cast<int64_t>(args.p.batch.rows.max) * args.p.shape.query_heads;
  return reinterpret_cast<PartialRow*>(args.scratch) + group * rows + head_row;
}

__device__ inline void StoreInScratch(const MergedRow& merged, PartialRow* to) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  auto* out = reinterpret_cast<float4*>(to->out);
  __stcg(out + lane, merged.out[0]);
  __stcg(out + lane + 32, merged.out[1]);
  if (lane == 0) {
    __stcg(reinterpret_cast<float4*>(&to->max),
           float4{merged.max, merged.sum, 0, 0});
  }
}

// One node row and query head of the batch.
struct HeadRow {
  int64_t index;  // Among [N, Hq].
  uint2 gates[2];
};

__device__ inline float Gated(float x, float gate) {
  return __fdividef(x, 1.0f + __expf(-gate));
}

// out = mean * sigmoid(gate).
__device__ inline void StoreGated(const AttentionParams& p, const HeadRow& to,
                                  const MergedRow& merged) {
  auto* out =
      reinterpret_cast<uint2*>(As<BFloat16>(p.out) + to.index * kTileHeadDim);
  const float scale = 1.0f / merged.sum;
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    const float4& x = merged.out[j];
    const auto gates =
        reinterpret_cast<const __nv_bfloat162(&)[2]>(to.gates[j]);
    const __nv_bfloat162 low =
        __floats2bfloat162_rn(Gated(x.x * scale, __low2float(gates[0])),
                              Gated(x.y * scale, __high2float(gates[0])));
    const __nv_bfloat162 high =
        __floats2bfloat162_rn(Gated(x.z * scale, __low2float(gates[1])),
                              Gated(x.w * scale, __high2float(gates[1])));
    out[threadIdx.x % 32 + 32 * j] = {reinterpret_cast<const uint32_t&>(low),
                                      reinterpret_cast<const uint32_t&>(high)};
  }
}

__device__ inline HeadRow TargetOf(const TileArgs& args, const TileWork& work,
                                   int row) {
  const AttentionShape& s = args.p.shape;
  const Divisor& group = args.plan.group;
  const int64_t node = work.item.first_node + work.item.Node(row, group);
  const int head = work.kv_head * group.divisor + work.item.Head(row, group);
  const auto* gates = reinterpret_cast<const uint2*>(
      As<BFloat16>(args.p.projected) + node * s.projected_width() +
      (2 * head + 1) * kTileHeadDim);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  return {.index = node * s.query_heads + head,
          .gates = {gates[lane], gates[lane + 32]}};
}

// Whether all other clusters of the item have stored their parts. Called by
// whole clusters.
__device__ inline bool ArrivesLast(const TileArgs& args, const TileWork& work,
                                   int& is_last) {
  __threadfence();
  SyncCluster();
  if (ClusterRank() == 0 && threadIdx.x == 0) {
    int32_t* arrived = args.arrived + blockIdx.y * gridDim.z + blockIdx.z;
    __threadfence();
    is_last = atomicAdd(arrived, 1) == work.active_groups - 1 ? 1 : 0;
    if (is_last != 0) *arrived = 0;
    __threadfence();
  }
  SyncCluster();
  return *InBlock(&is_last, 0) != 0;
}

// The rows that this warp merges at a time: kMergeRows rows from `first` on,
// `step` apart.
struct MergeRows {
  int first;
  int step;
  int last;  // The item's last row.

  __device__ int Row(int k) const { return min(first + k * step, last); }
  __device__ bool Has(int k) const { return first + k * step <= last; }
  __device__ int Live() const {
    int live = 0;
#pragma unroll
    for (int k = 0; k < kMergeRows; ++k) live += Has(k) ? 1 : 0;
    return live;
  }
};

// Finds where those rows go, and starts to load their gates.
__device__ inline void FindTargets(const TileArgs& args, const TileWork& work,
                                   const MergeRows& rows,
                                   HeadRow (&to)[kMergeRows]) {
#pragma unroll
  for (int k = 0; k < kMergeRows; ++k)
    to[k] = TargetOf(args, work, rows.Row(k));
}

// Merges what the blocks of the cluster have in shared memory, or what all
// clusters have left in scratch.
template <int kWarpgroups>
__device__ void MergeSome(const TileArgs& args, const TileWork& work,
                          const MergeRows& rows,
                          const HeadRow (&to)[kMergeRows], bool in_scratch,
                          TileShared<kWarpgroups>& shared) {
  const bool is_final = in_scratch || work.active_groups == 1;
  // A block begins with its own part, so that the blocks do not all read the
  // same one.
  const MergeOrder order = {
      .first = in_scratch ? 0 : ClusterRank(),
      .count = in_scratch ? work.active_groups : args.plan.cluster};
  const int part = min(static_cast<int>(threadIdx.x) % 32, order.count - 1);
  const PartialRow* parts[kMergeRows];
#pragma unroll
  for (int k = 0; k < kMergeRows; ++k) {
    parts[k] = in_scratch ? RowInScratch(args, part, to[k].index)
                          : InBlock(&shared.rows[rows.Row(k)], part);
  }
  MergedRow merged[kMergeRows];
  Merge(order, rows.Live(), in_scratch, parts, merged);
#pragma unroll
  for (int k = 0; k < kMergeRows; ++k) {
    if (!rows.Has(k)) continue;
    if (is_final) {
      StoreGated(args.p, to[k], merged[k]);
    } else {
      StoreInScratch(merged[k], RowInScratch(args, work.group, to[k].index));
    }
  }
}

// Called once the block's results are in its shared memory. The blocks of a
// cluster divide the rows among them. If there are several clusters, the last
// one to arrive then merges the results of all of them.
//
// The next kernel is not launched early. These blocks fill their
// multiprocessors, so its blocks would all go to the other ones; a product that
// all multiprocessors should load would then be loaded by half of them.
template <int kWarpgroups>
__device__ void MergeAndStore(const TileArgs& args, const TileWork& work,
                              TileShared<kWarpgroups>& shared) {
  const int cluster = args.plan.cluster;
  const MergeRows first = {
      .first = ClusterRank() + cluster * static_cast<int>(threadIdx.x / 32),
      .step = 4 * kWarpgroups * cluster,
      .last = work.item.rows - 1};
  HeadRow to[kMergeRows];
  FindTargets(args, work, first, to);
  SyncCluster();
#pragma unroll 1
  for (int pass = 0; pass < 2; ++pass) {
    MergeRows rows = first;
#pragma unroll 1
    while (rows.Has(0)) {
      MergeSome(args, work, rows, to, /*in_scratch=*/pass == 1, shared);
      rows.first += kMergeRows * rows.step;
      FindTargets(args, work, rows, to);
    }
    if (pass == 1 || work.active_groups == 1) return;
    if (!ArrivesLast(args, work, shared.is_last)) return;
    FindTargets(args, work, first, to);
  }
}

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_ATTENTION_ATTENTION_MERGE_CUH_
