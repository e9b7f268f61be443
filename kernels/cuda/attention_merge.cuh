// The end of tiled attention: what the blocks of a cluster, and then clusters,
// saw of the same rows is merged in a fixed order, gated and stored.
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

// A row's weighted values: a lane holds columns 4 lane .. and 128 + 4 lane ..
struct MergedRow {
  float max;
  float sum;
  float4 out[2];
};

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

// Rows that a warp merges at a time, so that their loads overlap.
constexpr int kMergeRows = 4;

// Merges parts 0 .. count - 1, count <= 32, of each row. part(k, i): part i of
// row k, with max(), sum() and out(j), the thread's float4 j.
template <typename PartOf>
__device__ void Merge(int count, const PartOf& part,
                      MergedRow (&merged)[kMergeRows]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float max[kMergeRows];
  float scale[kMergeRows];
#pragma unroll
  for (int k = 0; k < kMergeRows; ++k) {
    max[k] = lane < count ? part(k, lane).max() : -INFINITY;
    scale[k] = lane < count ? part(k, lane).sum() : 0.0f;
  }
#pragma unroll
  for (int k = 0; k < kMergeRows; ++k) {
    merged[k] = {};
    merged[k].max = WarpMax(max[k]);
    const float rescale = Rescale(max[k], merged[k].max);
    merged[k].sum = WarpSum(rescale * scale[k]);
    scale[k] = rescale;
  }
#pragma unroll 2
  for (int i = 0; i < count; ++i) {
#pragma unroll
    for (int k = 0; k < kMergeRows; ++k) {
      const float part_scale = __shfl_sync(~0u, scale[k], i);
      AddScaled(part_scale, part(k, i).out(0), merged[k].out[0]);
      AddScaled(part_scale, part(k, i).out(1), merged[k].out[1]);
    }
  }
}

// A row in the shared memory of a block of the cluster.
template <int kWarpgroups>
struct BlockPart {
  TileShared<kWarpgroups>* shared;
  int row;

  __device__ float max() const { return shared->max[row]; }
  __device__ float sum() const { return shared->sum[row]; }
  __device__ float4 out(int j) const {
    return reinterpret_cast<const float4*>(
        shared->out[row])[threadIdx.x % 32 + 32 * j];
  }
};

// A row that a cluster left in scratch: [groups, N, Hq, 256 + 4], the last ones
// max, sum and padding.
struct ScratchPart {
  static constexpr int kFloats = kTileHeadDim + 4;
  float4* row;

  __device__ float max() const { return __ldcg(row + kTileHeadDim / 4).x; }
  __device__ float sum() const { return __ldcg(row + kTileHeadDim / 4).y; }
  __device__ float4 out(int j) const {
    return __ldcg(row + threadIdx.x % 32 + 32 * j);
  }
  __device__ void Store(const MergedRow& merged) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    __stcg(row + lane, merged.out[0]);
    __stcg(row + lane + 32, merged.out[1]);
    if (lane == 0) {
      __stcg(row + kTileHeadDim / 4, float4{merged.max, merged.sum, 0, 0});
    }
  }
};

__device__ inline ScratchPart PartInScratch(const TileArgs& args, int group,
                                            int64_t head_row) {
  const int64_t rows =
      static_cast<int64_t>(args.p.batch.rows.max) * args.p.shape.query_heads;
  return {reinterpret_cast<float4*>(args.scratch + (group * rows + head_row) *
                                                       ScratchPart::kFloats)};
}

// Four elements at a time.
__device__ inline float4 Widen(const uint2& bits) {
  const auto low = reinterpret_cast<const __nv_bfloat162&>(bits.x);
  const auto high = reinterpret_cast<const __nv_bfloat162&>(bits.y);
  return {__low2float(low), __high2float(low), __low2float(high),
          __high2float(high)};
}
__device__ inline uint2 Narrow(const float4& x) {
  const __nv_bfloat162 low = __floats2bfloat162_rn(x.x, x.y);
  const __nv_bfloat162 high = __floats2bfloat162_rn(x.z, x.w);
  return {reinterpret_cast<const uint32_t&>(low),
          reinterpret_cast<const uint32_t&>(high)};
}

// One node row and query head of the batch: where its result goes, and by what
// gates.
struct HeadRow {
  int64_t index;  // Among [N, Hq].
  uint2 gates[2];
};

// out = mean * sigmoid(gate).
__device__ inline void StoreGated(const AttentionParams& p, const HeadRow& to,
                                  const MergedRow& merged) {
  auto* out =
      reinterpret_cast<uint2*>(As<BFloat16>(p.out) + to.index * kTileHeadDim);
  const float scale = 1.0f / merged.sum;
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    const float4 gate = Widen(to.gates[j]);
    const float4& x = merged.out[j];
    out[threadIdx.x % 32 + 32 * j] =
        Narrow({x.x * scale * Sigmoid(gate.x), x.y * scale * Sigmoid(gate.y),
                x.z * scale * Sigmoid(gate.z), x.w * scale * Sigmoid(gate.w)});
  }
}

// The block's share of the item's rows, kMergeRows of them at a time for every
// warp of the warpgroups.
class MergeShare {
 public:
  __device__ MergeShare(const TileArgs& args, const TileWork& work, int warps)
      : args_(args), work_(work), group_(GroupOf(args)), warps_(warps) {
    row_ = First();
  }

  __device__ int First() const {
    return ClusterRank() +
           args_.plan.cluster * (static_cast<int>(threadIdx.x) / 32);
  }
  __device__ bool Done() const { return row_ >= work_.item.rows; }
  __device__ void Next() { row_ += kMergeRows * Step(); }
  __device__ void Restart() { row_ = First(); }

  // The k-th row; the last one of all beyond it.
  __device__ int Row(int k) const {
    return min(row_ + k * Step(), work_.item.rows - 1);
  }
  __device__ bool Has(int k) const {
    return row_ + k * Step() < work_.item.rows;
  }
  __device__ HeadRow Target(int k) const {
    const AttentionShape& s = args_.p.shape;
    const int64_t node =
        work_.item.first_node + work_.item.Node(Row(k), group_);
    const int head =
        work_.kv_head * group_.value() + work_.item.Head(Row(k), group_);
    const auto* gates = reinterpret_cast<const uint2*>(
        As<BFloat16>(args_.p.projected) + node * s.projected_width() +
        (2 * head + 1) * kTileHeadDim);
    const int lane = static_cast<int>(threadIdx.x) % 32;
    return {.index = node * s.query_heads + head,
            .gates = {gates[lane], gates[lane + 32]}};
  }

 private:
  __device__ int Step() const { return args_.plan.cluster * warps_; }

  const TileArgs& args_;
  const TileWork& work_;
  Divisor group_;
  int warps_;
  int row_;
};

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

// After SyncCluster(): the blocks' results are in shared memory.
template <int kWarpgroups>
__device__ void MergeAndStore(const TileArgs& args, const TileWork& work,
                              TileShared<kWarpgroups>& shared) {
  MergedRow merged[kMergeRows];
  HeadRow to[kMergeRows];
  MergeShare share(args, work, 4 * kWarpgroups);
  for (; !share.Done(); share.Next()) {
#pragma unroll
    for (int k = 0; k < kMergeRows; ++k) to[k] = share.Target(k);
    Merge(
        args.plan.cluster,
        [&](int k, int rank) {
          return BlockPart<kWarpgroups>{InBlock(&shared, rank), share.Row(k)};
        },
        merged);
#pragma unroll
    for (int k = 0; k < kMergeRows; ++k) {
      if (!share.Has(k)) continue;
      if (work.active_groups == 1) {
        StoreGated(args.p, to[k], merged[k]);
      } else {
        PartInScratch(args, work.group, to[k].index).Store(merged[k]);
      }
    }
  }
  if (work.active_groups == 1) return;
  if (!ArrivesLast(args, work, shared.is_last)) return;
  for (share.Restart(); !share.Done(); share.Next()) {
#pragma unroll
    for (int k = 0; k < kMergeRows; ++k) to[k] = share.Target(k);
    Merge(
        work.active_groups,
        [&](int k, int group) {
          return PartInScratch(args, group, to[k].index);
        },
        merged);
#pragma unroll
    for (int k = 0; k < kMergeRows; ++k) {
      if (share.Has(k)) StoreGated(args.p, to[k], merged[k]);
    }
  }
}

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_ATTENTION_MERGE_CUH_
