// Attention on tensor cores, for Hopper: bfloat16, heads of 256 dimensions,
// pages of whole tiles of 64 tokens.
#ifndef BOLE_KERNELS_CUDA_ATTENTION_ATTENTION_TILES_H_
#define BOLE_KERNELS_CUDA_ATTENTION_ATTENTION_TILES_H_

#include <cuda.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "kernels/attention.h"
#include "kernels/cuda/divisor.h"
#include "kernels/cuda/operators.h"

namespace bole::cuda {

inline constexpr int kTileTokens = 64;
inline constexpr int kTileHeadDim = 256;
// Rows of a warpgroup. A block has one or two warpgroups.
inline constexpr int kWarpgroupRows = 64;

// How a launch is divided. It follows from capacities alone, so that a captured
// launch serves every content.
struct TilePlan {
  Divisor group;   // Query heads of a KV head.
  int warpgroups;  // Warpgroups of a block: 1 or 2.
  int items;    // Bound on the items of all requests, see attention_items.cuh
  int cluster;  // Blocks that share an item's tokens and merge in shared
                // memory: 1 .. kMaxCluster.
  int groups;   // Clusters that share an item's tokens and merge in scratch.

  constexpr int item_rows() const { return warpgroups * kWarpgroupRows; }
};

inline constexpr int kMaxCluster = 16;

// How many clusters of 1 .. kMaxCluster blocks a GPU runs at a time; [0] is 0.
// Larger clusters leave some multiprocessors unused.
using ClusterLimits = std::array<int, kMaxCluster + 1>;

// Queries the current device, which must be able to run LaunchAttendTiles().
absl::Status QueryClusters(ClusterLimits& limits);

// Plans a launch whose blocks all run at the same time. If there are enough
// tokens, it has three quarters as many blocks as can run (half as many for
// trees in short contexts, nearly as many for many large trees in others).
// Larger clusters are preferred to more groups.
TilePlan PlanTiles(const AttentionParams& params, const ClusterLimits& limits);

// Floats of scratch; 0 if one cluster does all of an item.
size_t TileScratchFloats(const AttentionParams& params, const TilePlan& plan);

// The most items x KV heads that a plan with several groups may have.
inline constexpr int kMaxGroupedUnits = 64;

struct TileArgs {
  CUtensorMap keys;    // The pools as rows of head_dim elements, in boxes of 64
  CUtensorMap values;  // rows and 64 columns, swizzled by 128 bytes.
  AttentionParams p;
  TilePlan plan;
  float* scratch;    // [TileScratchFloats]
  int32_t* arrived;  // [kMaxGroupedUnits]; all 0 before and after.
};

absl::Status LaunchAttendTiles(const TileArgs& args, const Launch& on);

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_ATTENTION_ATTENTION_TILES_H_
