// Attention on tensor cores. A block has up to 64 or 128 rows (nodes x query
// heads) of one KV head and a share of the tokens they see. One warp copies
// keys and values to shared memory, warpgroups of 64 rows multiply them, and
// the blocks that share the tokens merge their results.
#include "kernels/cuda/attention/attention_tiles.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/cuda/attention/attention_merge.cuh"
#include "kernels/cuda/attention/attention_ring.cuh"
#include "kernels/cuda/attention/attention_rows.cuh"
#include "kernels/cuda/attention/attention_work.cuh"
#include "kernels/cuda/check.h"
#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/launch.cuh"

namespace bole::cuda {
namespace {

// The loader is a warp. If there are two warpgroups, it is in a third one,
// which gives them its registers.
constexpr int Threads(int warpgroups) {
  return 128 * warpgroups + (warpgroups == 1 ? 32 : 128);
}

template <int kWarpgroups>
__global__ void __launch_bounds__(Threads(kWarpgroups), 1)
    AttendTilesKernel(const __grid_constant__ TileArgs args) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(1024) unsigned char memory[];
  auto& shared = *reinterpret_cast<TileShared<kWarpgroups>*>(memory);
  if (threadIdx.x == 0) {
    shared.InitBarriers();
    PrefetchMap(args.keys);
    PrefetchMap(args.values);
  }
  // The topology and the committed tokens were written before this forward
  // pass. The blocks of a cluster have the same item and group, and return
  // together.
  const TileWork work = WorkOf(args);
  if (work.group >= work.active_groups) {
    WaitForPrevious();
    return;
  }
  __syncthreads();

  const int warpgroup = static_cast<int>(threadIdx.x) / 128;
  if (warpgroup == kWarpgroups) {
    if constexpr (kWarpgroups > 1) ShrinkRegisters<40>();
    if (threadIdx.x / 32 == 4 * kWarpgroups) {
      TileLoader<kWarpgroups>(args, work, shared).LoadAll();
    }
    return;
  }
  if constexpr (kWarpgroups > 1) GrowRegisters<232>();
  VisibleTokens<kWarpgroups> visible(args, work, shared);
  visible.Prepare();
  WaitForPrevious();
  BeginQueries(args, work, shared.q[warpgroup]);
  if (threadIdx.x % 32 == 0) Arrive(AddressOf(&shared.asked));
  WaitForUnits();
  FenceForAsync();
  SyncThreads(1, 128 * kWarpgroups);
  if (warpgroup * kWarpgroupRows < work.item.rows) {
    AttendRows(args, work, visible, shared);
  } else {
    AttendNothing(work, shared);
  }
  // Decoding is followed by a product of few rows, which never has two blocks
  // on a multiprocessor.
  if constexpr (kWarpgroups == 1) StartNext();
  MergeAndStore(args, work, shared);
  SyncCluster();  // Others may still read this block's memory.
#else
  __trap();  // CudaBackend takes the plain kernel elsewhere.
#endif
}

// Allows blocks that use all shared memory of a multiprocessor, and clusters of
// more than 8 blocks.
template <int kWarpgroups>
absl::Status AllowLargeBlocks() {
  absl::Status status = ToStatus(
      cudaFuncSetAttribute(&AttendTilesKernel<kWarpgroups>,
                           cudaFuncAttributeMaxDynamicSharedMemorySize,
                           static_cast<int>(sizeof(TileShared<kWarpgroups>))),
      "shared memory of Attend");
  if (!status.ok()) return status;
  return ToStatus(
      cudaFuncSetAttribute(&AttendTilesKernel<kWarpgroups>,
                           cudaFuncAttributeNonPortableClusterSizeAllowed, 1),
      "clusters of Attend");
}

template <int kWarpgroups>
absl::Status LaunchTiles(const TileArgs& args, const Launch& on) {
  absl::Status status = AllowLargeBlocks<kWarpgroups>();
  if (!status.ok()) return status;
  const dim3 grid(args.plan.cluster * args.plan.groups, args.plan.items,
                  args.p.shape.kv_heads);
  return LaunchDependent("Attend", &AttendTilesKernel<kWarpgroups>,
                         {.grid = grid,
                          .block = Threads(kWarpgroups),
                          .shared_bytes = sizeof(TileShared<kWarpgroups>),
                          .cluster = args.plan.cluster},
                         on, args);
}

// Sets warpgroups and items.
void PlanItems(const AttentionParams& params, TilePlan& plan) {
  const RowBatch& batch = params.batch;
  const int group = params.shape.query_heads / params.shape.kv_heads;
  const int request_nodes =
      batch.mask_words == 0 ? batch.rows.max
                            : std::min(batch.rows.max, 32 * batch.mask_words);
  plan.warpgroups = request_nodes * group <= kWarpgroupRows ? 1 : 2;
  // Every request may leave an item unfilled.
  const int rows = plan.item_rows();
  plan.items = std::min(
      (batch.rows.max * group + batch.max_requests * (rows - 1)) / rows,
      batch.max_requests * ((request_nodes * group + rows - 1) / rows));
}

// The share of the blocks that can run at a time that a plan must use. Decoding
// is limited by memory, which fewer blocks keep just as busy. Merging the many
// rows of trees in scratch takes as long as some tiles of each block.
int LeastPercent(const TilePlan& plan, int units, int tiles) {
  constexpr int kShortContext = 96;  // Tiles.
  constexpr int kFewUnits = 8;
  if (plan.warpgroups == 2 && tiles <= kShortContext) return 50;
  return plan.warpgroups == 1 || units <= kFewUnits ? 75 : 85;
}

}  // namespace

absl::Status QueryClusters(ClusterLimits& limits) {
  absl::Status status = AllowLargeBlocks<2>();
  if (!status.ok()) return status;
  constexpr int kPortableCluster = 8;  // GPUs need not support larger ones.
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeClusterDimension;
  cudaLaunchConfig_t config = {};
  config.blockDim = Threads(2);
  config.dynamicSmemBytes = sizeof(TileShared<2>);
  config.attrs = &attribute;
  config.numAttrs = 1;
  limits[0] = 0;
  for (int cluster = 1; cluster <= kMaxCluster; ++cluster) {
    const auto blocks = static_cast<unsigned>(cluster);
    attribute.val.clusterDim = {blocks, 1, 1};
    config.gridDim = dim3(blocks * 1024);
    const cudaError_t found = cudaOccupancyMaxActiveClusters(
        &limits[cluster], &AttendTilesKernel<2>, &config);
    if (found == cudaSuccess) continue;
    if (cluster <= kPortableCluster) {
      return ToStatus(found, "clusters of Attend");
    }
    cudaGetLastError();
    limits[cluster] = 0;
  }
  return status;
}

TilePlan PlanTiles(const AttentionParams& params, const ClusterLimits& limits) {
  constexpr int kMaxGroups = 32;  // The most that a warp merges.
  TilePlan plan = {
      .group = Divisor(params.shape.query_heads / params.shape.kv_heads),
      .warpgroups = 1,
      .items = 1,
      .cluster = 1,
      .groups = 1};
  PlanItems(params, plan);
  const int units = std::max(1, plan.items * params.shape.kv_heads);
  const int tiles =
      params.batch.max_pages * (params.pages.page_size / kTileTokens);
  const auto groups = [&](int cluster) {
    const int fit = std::min(limits[cluster] / units, tiles / cluster);
    return std::min(fit, units <= kMaxGroupedUnits ? kMaxGroups : 1);
  };
  const int percent = LeastPercent(plan, units, tiles);
  int most = 0;
  for (int cluster = 1; cluster <= kMaxCluster; ++cluster) {
    most = std::max(most, cluster * groups(cluster));
  }
  for (int cluster = kMaxCluster; cluster > 0; --cluster) {
    if (groups(cluster) == 0) continue;
    if (100 * cluster * groups(cluster) < percent * most) continue;
    plan.cluster = cluster;
    plan.groups = groups(cluster);
    break;
  }
  return plan;
}

size_t TileScratchFloats(const AttentionParams& params, const TilePlan& plan) {
  if (plan.groups == 1) return 0;
  return static_cast<size_t>(plan.groups) * params.batch.rows.max *
         params.shape.query_heads * (sizeof(PartialRow) / sizeof(float));
}

absl::Status LaunchAttendTiles(const TileArgs& args, const Launch& on) {
  return args.plan.warpgroups == 1 ? LaunchTiles<1>(args, on)
                                   : LaunchTiles<2>(args, on);
}

}  // namespace bole::cuda
