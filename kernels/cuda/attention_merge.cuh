// The end of tiled attention: what the blocks of a cluster, and then clusters,
// saw of the same rows is merged in a fixed order, gated and stored. The code
// is kept short, because every launch finds the instruction cache without it.
#ifndef BOLE_KERNELS_CUDA_ATTENTION_MERGE_CUH_
#define BOLE_KERNELS_CUDA_ATTENTION_MERGE_CUH_

#include <cmath>
#include <cstdint>

#include "kernels/cuda/attention_ring.cuh"
#include "kernels/cuda/attention_rows.cuh"
#include "kernels/cuda/attention_work.cuh"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/hopper.cuh"

namespace bole::cuda {

// Rows that a warp merges at a time, so that their loads overlap.
constexpr int kMergeRows = 4;

// A row of which a lane holds columns 4 lane .. and 128 + 4 lane ..
struct MergedRow {
  float max;
  float sum;
  float4 out[2];
};

// Of the cluster's shared memory, or of scratch, past the first cache.
__device__ inline float4 LoadPart(const float* from, bool in_scratch) {
  if (!in_scratch) return *reinterpret_cast<const float4*>(from);
  float4 x;
  asm volatile("ld.relaxed.gpu.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)
               : "l"(from)
               : "memory");
  return x;
}

// The largest of the warp, in every lane.
__device__ inline float WarpMax(float x) {
  for (int offset = 16; offset > 0; offset /= 2) {
    x = fmaxf(x, __shfl_xor_sync(~0u, x, offset));
  }
  return x;
}

__device__ inline void AddScaled(float scale, const float4& x, float4& sum) {
  sum.x += scale * x.x;
  sum.y += scale * x.y;
  sum.z += scale * x.z;
  sum.w += scale * x.w;
}

// Merges `count` <= 32 parts of each row; lane i has where part i is.
__device__ inline void Merge(int count, bool in_scratch,
                             const PartialRow* const (&parts)[kMergeRows],
                             MergedRow (&merged)[kMergeRows]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float scale[kMergeRows];
  float4 found[kMergeRows];  // max, sum
#pragma unroll
  for (int k = 0; k < kMergeRows; ++k) {
    found[k] = {-INFINITY, 0, 0, 0};
    if (lane < count) found[k] = LoadPart(&parts[k]->max, in_scratch);
  }
#pragma unroll
  for (int k = 0; k < kMergeRows; ++k) {
    merged[k] = {};
    merged[k].max = WarpMax(found[k].x);
    scale[k] = Rescale(found[k].x, merged[k].max);
    merged[k].sum = WarpSum(scale[k] * found[k].y);
  }
#pragma unroll 1
  for (int i = 0; i < count; ++i) {
#pragma unroll
    for (int k = 0; k < kMergeRows; ++k) {
      const auto part = reinterpret_cast<const PartialRow*>(
          __shfl_sync(~0u, reinterpret_cast<unsigned long long>(parts[k]), i));
      const float part_scale = __shfl_sync(~0u, scale[k], i);
      AddScaled(part_scale, LoadPart(part->out + 4 * lane, in_scratch),
                merged[k].out[0]);
      AddScaled(part_scale, LoadPart(part->out + 4 * lane + 128, in_scratch),
                merged[k].out[1]);
    }
  }
}

// Where a cluster leaves rows: [groups, N, Hq].
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

// The rows that this warp merges, kMergeRows from `first` on; `step` apart.
struct MergeRows {
  int first;
  int step;
  int last;  // The item's last row.

  __device__ int Row(int k) const { return min(first + k * step, last); }
  __device__ bool Has(int k) const { return first + k * step <= last; }
};

// Merges what the blocks of the cluster have in shared memory, or what all
// clusters have left in scratch.
template <int kWarpgroups>
__device__ void MergeSome(const TileArgs& args, const TileWork& work,
                          const MergeRows& rows, bool in_scratch,
                          TileShared<kWarpgroups>& shared) {
  const bool is_final = in_scratch || work.active_groups == 1;
  const int count = in_scratch ? work.active_groups : args.plan.cluster;
  const int part = min(static_cast<int>(threadIdx.x) % 32, count - 1);
  HeadRow to[kMergeRows];
  const PartialRow* parts[kMergeRows];
#pragma unroll
  for (int k = 0; k < kMergeRows; ++k) {
    to[k] = TargetOf(args, work, rows.Row(k));
    parts[k] = in_scratch ? RowInScratch(args, part, to[k].index)
                          : InBlock(&shared.rows[rows.Row(k)], part);
  }
  MergedRow merged[kMergeRows];
  Merge(count, in_scratch, parts, merged);
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

// After SyncCluster(): the blocks' results are in shared memory. The blocks
// take the rows in turn, and if there are several clusters, those of the last
// one to come take them once more.
template <int kWarpgroups>
__device__ void MergeAndStore(const TileArgs& args, const TileWork& work,
                              TileShared<kWarpgroups>& shared) {
  const int cluster = args.plan.cluster;
  const int warp = static_cast<int>(threadIdx.x) / 32;
#pragma unroll 1
  for (int pass = 0; pass < 2; ++pass) {
    MergeRows rows = {.first = ClusterRank() + cluster * warp,
                      .step = 4 * kWarpgroups * cluster,
                      .last = work.item.rows - 1};
#pragma unroll 1
    for (; rows.Has(0); rows.first += kMergeRows * rows.step) {
      MergeSome(args, work, rows, /*in_scratch=*/pass == 1, shared);
    }
    if (pass == 1 || work.active_groups == 1) return;
    if (!ArrivesLast(args, work, shared.is_last)) return;
  }
}

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_ATTENTION_MERGE_CUH_
