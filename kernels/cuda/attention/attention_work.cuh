// One block's share of tiled attention, and the warp that loads it.
#ifndef BOLE_KERNELS_CUDA_ATTENTION_ATTENTION_WORK_CUH_
#define BOLE_KERNELS_CUDA_ATTENTION_ATTENTION_WORK_CUH_

#include <cstdint>

#include "kernels/cuda/attention/attention_items.cuh"
#include "kernels/cuda/attention/attention_ring.cuh"
#include "kernels/cuda/attention/attention_tiles.h"
#include "kernels/cuda/attention/kv_rows.cuh"
#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/launch.cuh"

namespace bole::cuda {

struct TileWork {
  AttentionItem item;
  AttentionSpan span;
  int first_key;
  int kv_head;
  int group;          // Index of the group of clusters.
  int active_groups;  // 0: the item does not exist.
  int first_tile;     // In tiles of 64 tokens.
  int last_tile;      // Not included.

  // Whether some row does not see all of a tile, because it is at the end or
  // begins before the layer's first key.
  __device__ bool HasHidden(int tile) const {
    return (tile + 1) * kTileTokens > span.plain ||
           tile * kTileTokens < first_key;
  }
  // The first tile at the end, among the block's, that has hidden tokens.
  __device__ int FirstHidden() const {
    return max(first_tile, span.plain / kTileTokens);
  }
  // Whether a tile has tokens that this forward pass has computed.
  __device__ bool IsNew(int tile) const {
    return (tile + 1) * kTileTokens > item.first_index;
  }
};

// Grid: splits, items, KV heads. Few tokens are divided among fewer clusters,
// because merging in scratch costs about as much as some tiles.
__device__ inline TileWork WorkOf(const TileArgs& args) {
  constexpr int kMinTilesPerBlock = 3;
  const RowBatch& batch = args.p.batch;
  const TilePlan& plan = args.plan;
  // In batches of chains, the items that see most tokens start first.
  const int index = static_cast<int>(
      batch.mask_words == 0 ? gridDim.y - 1 - blockIdx.y : blockIdx.y);
  TileWork work = {};
  work.kv_head = static_cast<int>(blockIdx.z);
  work.item = FindItem(args, index);
  work.first_key = args.p.first_key;
  if (work.item.rows <= 0) return work;
  work.span = SpanOf(batch, work.item, plan.group);
  const int tiles = (work.span.end + kTileTokens - 1) / kTileTokens;
  const int per_group = kMinTilesPerBlock * plan.cluster;
  const int split = static_cast<int>(blockIdx.x);
  work.group = split / plan.cluster;
  work.active_groups = min(plan.groups, (tiles + per_group - 1) / per_group);
  const int splits = plan.cluster * work.active_groups;
  work.first_tile = tiles * split / splits;
  work.last_tile = tiles * (split + 1) / splits;
  return work;
}

// Which tokens of a tile the item's nodes see.
template <int kWarpgroups>
class VisibleTokens {
 public:
  __device__ VisibleTokens(const TileArgs& args, const TileWork& work,
                           TileShared<kWarpgroups>& shared)
      : p_(args.p),
        work_(work),
        shared_(shared),
        nodes_(work.item.Nodes(args.plan.group)) {}

  __device__ int nodes() const { return nodes_; }

  // Called by all warpgroups together. The loader waits at `masked`; the
  // warpgroups must synchronise before they read the result.
  __device__ void Prepare() {
    const int tiles = work_.last_tile - work_.FirstHidden();
    const int entries = min(kVisibleEntries, tiles * nodes_);
    for (int i = static_cast<int>(threadIdx.x); i < entries;
         i += 128 * kWarpgroups) {
      const int tile = i / nodes_;
      shared_.visible[i] =
          Compute(work_.FirstHidden() + tile, i - tile * nodes_);
    }
    Arrive(AddressOf(&shared_.masked));
  }

  // Bit i: the node sees token i of the tile. REQUIRES: the tile has hidden
  // tokens.
  __device__ uint64_t Of(int tile, int node) const {
    const int entry = (tile - work_.FirstHidden()) * nodes_ + node;
    return entry >= 0 && entry < kVisibleEntries ? shared_.visible[entry]
                                                 : Compute(tile, node);
  }

 private:
  __device__ uint64_t Compute(int tile, int node) const {
    return VisibleIndices(p_, work_.item.first_index,
                          work_.item.first_node + node)
        .Bits(tile * kTileTokens);
  }

  const AttentionParams& p_;
  const TileWork& work_;
  TileShared<kWarpgroups>& shared_;
  int nodes_;
};

// Fills the ring. A whole warp runs it.
template <int kWarpgroups>
class TileLoader {
 public:
  __device__ TileLoader(const TileArgs& args, const TileWork& work,
                        TileShared<kWarpgroups>& shared)
      : args_(args),
        work_(work),
        ring_(shared),
        visible_(args, work, shared),
        landed_(AddressOf(&shared.landed)),
        asked_(AddressOf(&shared.asked)),
        masked_(AddressOf(&shared.masked)),
        kv_(args.p.batch, args.p.shape, args.p.pages, work.item.request) {}

  // Loads K0 K1 V0 K2 V1 .., which is the order in which they are needed.
  // Committed tokens do not wait for the previous kernel. If K0 has to, the
  // queries are needed together with it, so they are requested before the
  // other tiles.
  __device__ void LoadAll() {
    bool waited = false;
    for (int tile = work_.first_tile; tile <= work_.last_tile; ++tile) {
      if (tile < work_.last_tile) {
        if (!waited && work_.IsNew(tile)) {
          WaitForPrevious();
          waited = true;
        }
        const int slot = ring_.Claim();
        Copy(args_.keys, tile, slot, ring_.FullBarrier(slot));
      }
      if (tile == work_.first_tile && tile < work_.last_tile && waited) {
        WaitBarrier(asked_, 0);
      }
      if (tile > work_.first_tile) LoadValues(tile - 1);
    }
  }

 private:
  static constexpr int kLanes = 32;

  __device__ static int Lane() { return static_cast<int>(threadIdx.x) % 32; }

  // The row of the pools where a tile begins. Lane i looks up tile i of 32, so
  // that the page table is read once for all of them.
  __device__ int PoolRow(int tile) {
    const int base = tile - (tile - work_.first_tile) % kLanes;
    if (base != rows_base_) {
      rows_base_ = base;
      const int mine = min(base + Lane(), work_.last_tile - 1);
      row_ = static_cast<int>(kv_.Row(mine * kTileTokens) +
                              kv_.Distance(args_.p.layer, work_.kv_head));
    }
    return __shfl_sync(~0u, row_, tile - base);
  }

  __device__ void Copy(const CUtensorMap& map, int tile, int slot,
                       uint32_t barrier) {
    const int row = PoolRow(tile);
    if (Lane() == 0) ArriveExpecting(barrier, kTileBytes);
    __syncwarp();
    if (Lane() < kColumnBlocks) {
      CopyBox(map, Lane() * kBlockColumns, row,
              ring_.Tile(slot) + Lane() * kBlockBytes, barrier);
    }
  }

  // Values that no row sees may be anything, also NaN. They are set to 0, so
  // that their products with weights of 0 are 0.
  __device__ void LoadValues(int tile) {
    const int slot = ring_.Claim();
    if (!work_.HasHidden(tile)) {
      Copy(args_.values, tile, slot, ring_.FullBarrier(slot));
      return;
    }
    Copy(args_.values, tile, slot, landed_);
    WaitBarrier(masked_, 0);
    uint64_t seen = 0;
    for (int node = Lane(); node < visible_.nodes(); node += kLanes) {
      seen |= visible_.Of(tile, node);
    }
    const uint64_t used = __reduce_or_sync(~0u, static_cast<uint32_t>(seen)) |
                          static_cast<uint64_t>(__reduce_or_sync(
                              ~0u, static_cast<uint32_t>(seen >> 32)))
                              << 32;
    WaitBarrier(landed_, landed_parity_);
    landed_parity_ ^= 1;
#pragma unroll 16
    for (int row = 0; row < kTileTokens; ++row) {
      if ((used >> row & 1) == 0) ClearRow(ring_.Tile(slot), row);
    }
    FenceForAsync();
    __syncwarp();
    if (Lane() == 0) Arrive(ring_.FullBarrier(slot));
  }

  __device__ static void ClearRow(uint32_t tile, int row) {
    const uint32_t to =
        tile + Lane() / 8 * kBlockBytes + row * 128 + Lane() % 8 * 16;
    asm volatile("st.shared.v4.u32 [%0], {%1, %1, %1, %1};" ::"r"(to), "r"(0)
                 : "memory");
  }

  const TileArgs& args_;
  const TileWork& work_;
  Ring<kWarpgroups> ring_;
  VisibleTokens<kWarpgroups> visible_;
  uint32_t landed_;
  uint32_t asked_;
  uint32_t masked_;
  uint32_t landed_parity_ = 0;
  KvRows kv_;
  int rows_base_ = -1;
  int row_ = 0;
};

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_ATTENTION_ATTENTION_WORK_CUH_
