// How a tile is solved and read out, where verification is bound by latency:
// block after block of 16 nodes.
#ifndef BOLE_KERNELS_CUDA_VERIFY_VERIFY_SOLVE_CUH_
#define BOLE_KERNELS_CUDA_VERIFY_VERIFY_SOLVE_CUH_

#include <cstdint>

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/verify/tree_matrices.cuh"
#include "kernels/cuda/verify/verify_block.cuh"
#include "kernels/cuda/verify/verify_columns.cuh"
#include "kernels/cuda/verify/verify_few.cuh"
#include "kernels/cuda/verify/verify_tile.cuh"
#include "kernels/cuda/warp_barriers.cuh"
#include "kernels/gdn.h"

namespace bole::cuda {

// A lane's share of a block B.
struct BlockShare {
  uint4 rows[2];

  __device__ explicit BlockShare(const SplitBlock& block)
      : rows{block.rows[0][threadIdx.x % 32], block.rows[1][threadIdx.x % 32]} {
  }
};

// sum += x B^T by products that do not wait for each other.
__device__ inline void MultiplyAddApart(TileSum& sum, const SplitOperand& x,
                                        const BlockShare& block) {
#pragma unroll
  for (int n = 0; n < 2; ++n) {
    const uint4& b = block.rows[n];
    float low[4] = {};
    float cross[4] = {};
    MultiplyAdd(low, x.low, b.x, b.y);
    MultiplyAdd(cross, x.high, b.z, b.w);
    MultiplyAdd(sum[n], x.high, b.x, b.y);
#pragma unroll
    for (int r = 0; r < 4; ++r) sum[n][r] += low[r] + cross[r];
  }
}

// sums[row] += u B^T for the blocks B of column j, from row `first` on:
// products that follow each other do not wait for each other. Of rows behind
// the last, anything: nothing waits for the number.
template <int kBlocks>
__device__ void MultiplyColumn(const SplitBlock* triangle, int first, int j,
                               const SplitOperand& u,
                               TileSum (&sums)[kBlocks]) {
  uint4 b[kBlocks][2];
#pragma unroll
  for (int row = first; row < kBlocks; ++row) {
    const BlockShare block(triangle[BlockIndex{row, j}.Number()]);
    b[row][0] = block.rows[0];
    b[row][1] = block.rows[1];
  }
#pragma unroll
  for (int term = 0; term < 3; ++term) {
#pragma unroll
    for (int row = first; row < kBlocks; ++row) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const uint4& right = b[row][half];
        MultiplyAdd(sums[row][half], term == 1 ? u.low : u.high,
                    term == 2 ? right.z : right.x,
                    term == 2 ? right.w : right.y);
      }
    }
  }
}

// The right sides of a group, from S k.
template <typename C>
__device__ void FormRightSides(const FewShared<C>& s, int group, int used,
                               TileSum (&right)[C::kBlocks]) {
#pragma unroll
  for (int b = 0; b < C::kBlocks; ++b) {
    if (b >= used) break;
    FormRightSide(reinterpret_cast<const unsigned char*>(
                      s.values.part[group][b / kPartBlocks]),
                  b % kPartBlocks, s.gates.heads[0], b, right[b]);
  }
}

// The warp of a group that solves: hands each block of U to the one that reads
// out. Blocks are numbered when this is compiled:
// numbers that are found cost more instructions than the code of a loop saves.
template <typename C>
__device__ void SolveGroup(FewShared<C>& s, int group, int used,
                           TileSum (&right)[C::kBlocks]) {
  const SplitBlock* const solve = s.matrices.solve;
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int j = 0; j < C::kBlocks; ++j) {
    if (j >= used) break;
    const BlockShare inverse(solve[BlockIndex{j, j}.Number()]);
    SplitOperand u;
    SplitTile(right[j], u);
    MultiplyAddApart(right[j], u, inverse);
    SplitTile(right[j], u);
    const uint32_t* h = u.high;
    const uint32_t* l = u.low;
    s.u[group][j][0][lane] = {h[0], h[1], h[2], h[3]};
    s.u[group][j][1][lane] = {l[0], l[1], l[2], l[3]};
#if __CUDA_ARCH__ >= 900
    ArriveLanes(&s.u_full[group][j]);
#else
    NamedBarrier<64>(kExchangeBarrier + group);
#endif
    if (j + 1 < C::kBlocks) {  // The next block first.
      const BlockShare below(solve[BlockIndex{j + 1, j}.Number()]);
      MultiplyAddApart(right[j + 1], u, below);
      MultiplyColumn(solve, j + 2, j, u, right);
    }
  }
}

// The warp that reads out: calls put(j, o) for each block of O^T of its
// columns, which hold exp(Gamma) S q at first.
template <typename C, typename Put>
__device__ void ReadGroup(const FewShared<C>& s, int group, int used,
                          TileSum (&o)[C::kBlocks], const Put& put) {
  const SplitBlock* const readout = s.matrices.readout;
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int j = 0; j < C::kBlocks; ++j) {
    if (j >= used) break;
    const BlockShare own(readout[BlockIndex{j, j}.Number()]);
#if __CUDA_ARCH__ >= 900
    WaitBarrier(AddressOf(&s.u_full[group][j]), 0);
    __syncwarp();
#else
    NamedBarrier<64>(kExchangeBarrier + group);
#endif
    const uint4 h = s.u[group][j][0][lane];
    const uint4 l = s.u[group][j][1][lane];
    const SplitOperand u = {{h.x, h.y, h.z, h.w}, {l.x, l.y, l.z, l.w}};
    MultiplyAddApart(o[j], u, own);
    MultiplyColumn(readout, j + 1, j, u, o);
    put(j, o[j]);
  }
}

// Block j of O^T of a group to where v was, which the solver has read.
template <typename C>
__device__ void PutOutputs(const TileSum& o, int group, int j,
                           FewShared<C>& s) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int node = j * kTileRows + i / 2 * 8 + lane / 4;
    uint4* const to = s.values.At(node, group * 2 + i % 2);
    reinterpret_cast<uint32_t*>(to)[lane % 4] =
        Transposed(PackBFloat16(o[i / 2][i % 2 * 2], o[i / 2][i % 2 * 2 + 1]));
  }
  __syncwarp();
}

// From there to memory.
template <typename C>
__device__ void StoreOutputs(const GdnCoreParams& p, const LayerTile& tile,
                             int group, int j, FewShared<C>& s) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int node = j * kTileRows + lane / 2;
  if (node >= tile.count) return;
  BFloat16* out =
      As<BFloat16>(p.out) +
      (static_cast<int64_t>(tile.first + node) * p.shape.value_heads +
       tile.head) *
          kValueDim +
      tile.column + group * kColumns + lane % 2 * 8;
  *reinterpret_cast<uint4*>(out) = *s.values.At(node, group * 2 + lane % 2);
}

// What the warps do with the tile: solve and read out, or build the matrices.
// The state is there. Calls wait_rows() and wait_values(), which return when
// keys and queries, and when values are there; and put(group, j) in the warp of
// a group, when block j of its outputs is where its values were.
template <typename C, typename WaitRows, typename WaitValues, typename Put>
__device__ void RunRoles(FewShared<C>& s, int used, const WaitRows& wait_rows,
                         const WaitValues& wait_values, const Put& put) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const bool builds = warp >= C::kColumnWarps;
  const bool solves = warp < C::kColumnGroups;
  const int group = warp % C::kColumnGroups;
  if (builds) {
    wait_rows();
    BuildMatrices<C>(s, used);
    return;
  }
  TileSum sums[C::kBlocks] = {};
  MultiplyTileState<C>(s, group, used, solves ? s.keys : s.queries, wait_rows,
                       sums);
  WaitForGates(s);
  if (solves) {
    wait_values();
    FormRightSides<C>(s, group, used, sums);
    TakeMatrices(s, /*is_readout=*/false);
    SolveGroup<C>(s, group, used, sums);
  } else {
    ScaleReadout(s.gates.heads[0], sums);
    TakeMatrices(s, /*is_readout=*/true);
    ReadGroup<C>(s, group, used, sums, [&](int j, const TileSum& o) {
      PutOutputs<C>(o, group, j, s);
      put(group, j);
    });
  }
}

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_VERIFY_VERIFY_SOLVE_CUH_
