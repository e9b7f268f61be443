// The work of a block of a kernel that only verifies, where few requests leave
// the GPU bound by latency and trees have 33 to 64 nodes. As in verify_few.cuh
// it is a tile of the columns of one head, but products use wgmma, by whole
// warpgroups:
//
//   columns   the state's high and low parts, rows of one operand, times keys
//             and queries; then two warps solve for U and two read O out
//   solve     k_i k_j, scaled to -g, and the inverses of diagonal blocks
//   readout   q_i k_j, scaled
//   nodes     two warps that sum up the paths before the keys arrive
//
// Each warp of solve and of readout builds a row of blocks of its matrix and
// publishes it as soon as it is done. Requires sm_90a.
#ifndef BOLE_KERNELS_CUDA_VERIFY_VERIFY_ALONE_CUH_
#define BOLE_KERNELS_CUDA_VERIFY_VERIFY_ALONE_CUH_

#include <cstdint>

#include "kernels/cuda/gdn/gdn_views.cuh"
#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/verify/tree_gates.cuh"
#include "kernels/cuda/verify/tree_matrices.cuh"
#include "kernels/cuda/verify/verify_few.cuh"
#include "kernels/cuda/verify/verify_tile.cuh"
#include "kernels/cuda/warp_barriers.cuh"
#include "kernels/cuda/wgmma.cuh"
#include "kernels/gdn.h"

namespace bole::cuda {

using AloneConfig = FewConfig<4, 2, 14>;

constexpr int kAloneBlocks = AloneConfig::kBlocks;
constexpr int kAloneNodes = AloneConfig::kNodes;
constexpr int kAloneGroups = AloneConfig::kColumnGroups;
constexpr int kGroupWarps = 4;  // Warps of a warpgroup.
constexpr int kNodeWarps = kAloneNodes / 32;
// The warps that build the matrices load keys and queries.
constexpr int kRowWarps = 2 * kGroupWarps;

// A block of a matrix in float32; equal columns of successive rows are in
// different banks.
using FloatTile = float[kTileRows][kTileRows + 4];

struct AloneShared {
  NodeRows<kAloneNodes> keys;
  NodeRows<kAloneNodes> queries;
  // The state: high parts, then low parts.
  NodeRows<2 * AloneConfig::kTileColumns> parts;
  TileState<AloneConfig::kTileColumns> state;
  TreeMatrices<kAloneBlocks> matrices;
  alignas(16) FloatTile scratch[kAloneBlocks];  // For diagonal blocks.
  TileValues<kAloneGroups, kAloneBlocks> values;
  // Sums that a warp of the columns hands to the other warp of its group.
  float4 halves[kGroupWarps][2 * kAloneBlocks][32];
  uint4 u[kAloneGroups][kAloneBlocks][2][32];  // Blocks of U^T.
  alignas(16) TreeGates<kAloneNodes, 1> gates;

  uint64_t parts_full;
  uint64_t keys_full;
  uint64_t queries_full;
  uint64_t gates_stored;
  uint64_t gates_full;  // Paths are summed up.
  uint64_t halves_full;
  uint64_t solve_full[kAloneBlocks];  // Rows of blocks.
  uint64_t readout_full[kAloneBlocks];
  uint64_t u_full[kAloneGroups][kAloneBlocks];

  // Called by all threads.
  __device__ void InitBarriers() {
    const int n = static_cast<int>(threadIdx.x);
    if (n < kAloneBlocks) {
      InitLaneBarrier(&solve_full[n], 1);
      InitLaneBarrier(&readout_full[n], 1);
    }
    if (n < kAloneGroups * kAloneBlocks) InitLaneBarrier(&u_full[0][n], 1);
    if (n == 32) InitLaneBarrier(&parts_full, kGroupWarps);
    if (n == 64) InitLaneBarrier(&keys_full, kRowWarps);
    if (n == 96) InitLaneBarrier(&queries_full, kRowWarps);
    if (n == 128) InitLaneBarrier(&gates_stored, kNodeWarps);
    if (n == 160) InitLaneBarrier(&gates_full, kNodeWarps);
    if (n == 192) InitLaneBarrier(&halves_full, kGroupWarps);
  }
};

// Called by a warp. Waits for `full`, which completes only once.
__device__ inline void WaitFull(const uint64_t& full) {
  WaitBarrier(AddressOf(&full), 0);
  __syncwarp();
}

// Columns 16 step .. + 15 of the rows, as an operand of wgmma.
__device__ inline uint64_t RowsOperand(const NodeRows<kAloneNodes>& rows,
                                       int step) {
  return WgmmaOperand(AddressOf(&rows.chunk[step / 4][0][0]) + step % 4 * 32);
}

// Loads keys, then queries, to shared memory. Called by the warps that build.
__device__ inline void LoadRows(const GdnCoreParams& p, const LayerTile& tile,
                                int padded, AloneShared& s) {
  const FactorRows<BFloat16> factors(p.shape, p.factors, p.layer);
  const int64_t stride = p.shape.key_width();
  const int thread = static_cast<int>(threadIdx.x) - 32 * kGroupWarps;
  s.keys.template LoadAsync<32 * kRowWarps>(
      factors.k(tile.first, tile.key_head), stride, tile.count, padded, thread);
  CommitCopies();
  s.queries.template LoadAsync<32 * kRowWarps>(
      As<BFloat16>(p.q) + tile.first * stride + tile.key_head * kKeyDim, stride,
      tile.count, padded, thread);
  CommitCopies();
  WaitForCopies<1>();
  FenceForAsync();
  ArriveLanes(&s.keys_full);
  WaitForCopies<0>();
  FenceForAsync();
  ArriveLanes(&s.queries_full);
}

// Loads the gates of the nodes, one node per thread, and sums up the paths.
__device__ inline void FinishGates(const GdnCoreParams& p,
                                   const LayerTile& tile,
                                   Gates<AloneConfig>& gates, AloneShared& s) {
  const int node = gates.node;
  const float2 scales = gates.Read(p, tile);
  s.gates.k_scale[node] = scales.x;
  s.gates.q_scale[node] = scales.y;
  gates.Store(s.gates);
  ArriveLanes(&s.gates_stored);
  WaitFull(s.gates_stored);
  auto& head = s.gates.heads[0];
  const uint64_t path =
      static_cast<uint64_t>(gates.mask[1]) << 32 | gates.mask[0];
  const float decay =
      s.gates.SetGamma(head, node, PathSum(head.log_decay, path));
  s.gates.SetScales(head, node, decay);
  ArriveLanes(&s.gates_full);
}

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_VERIFY_VERIFY_ALONE_CUH_
