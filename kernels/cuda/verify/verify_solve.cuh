// Solves and reads out a tile where verification is bound by latency, one block
// of 16 nodes after another.
#ifndef BOLE_KERNELS_CUDA_VERIFY_VERIFY_SOLVE_CUH_
#define BOLE_KERNELS_CUDA_VERIFY_VERIFY_SOLVE_CUH_

#include <cstdint>

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/verify/tree_matrices.cuh"
#include "kernels/cuda/verify/verify_block.cuh"
#include "kernels/cuda/verify/verify_columns.cuh"
#include "kernels/cuda/verify/verify_few.cuh"
#include "kernels/cuda/verify/verify_tile.cuh"
#include "kernels/gdn.h"

namespace bole::cuda {

// sums[b] += u B^T for the block B of row j + b and column j, for b from kFirst
// on. Successive products do not depend on each other. Sums of rows after the
// last may be anything, so that nothing waits for the number of rows.
template <int kFirst, int kBlocks>
__device__ void MultiplyColumn(const SplitBlock* triangle, int j,
                               const SplitOperand& u,
                               TileSum (&sums)[kBlocks]) {
  uint4 b[kBlocks][2];
#pragma unroll
  for (int n = kFirst; n < kBlocks; ++n) {
    const int row = min(j + n, kBlocks - 1);
    const SplitBlock& block = triangle[BlockIndex{row, j}.Number()];
    b[n][0] = block.rows[0][threadIdx.x % 32];
    b[n][1] = block.rows[1][threadIdx.x % 32];
  }
#pragma unroll
  for (int term = 0; term < 3; ++term) {
#pragma unroll
    for (int n = kFirst; n < kBlocks; ++n) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const uint4& right = b[n][half];
        MultiplyAdd(sums[n][half], term == 1 ? u.low : u.high,
                    term == 2 ? right.z : right.x,
                    term == 2 ? right.w : right.y);
      }
    }
  }
}

// Drops the first of the sums and moves the others up.
template <int kBlocks>
__device__ void DropFirst(TileSum (&sums)[kBlocks]) {
#pragma unroll
  for (int b = 1; b < kBlocks; ++b) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      sums[b - 1][i / 4][i % 4] = sums[b][i / 4][i % 4];
    }
  }
}

// A lane's share of a block B.
struct BlockShare {
  uint4 rows[2];

  __device__ explicit BlockShare(const SplitBlock& block)
      : rows{block.rows[0][threadIdx.x % 32], block.rows[1][threadIdx.x % 32]} {
  }
};

// sum += x B^T by products that do not depend on each other.
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

// The warp of a group that solves. It hands each block of U to the one that
// reads out. Two slots are enough: the writer reuses a slot after the barrier
// of the block in between, at which the reader arrives only when it has read
// the slot. The block being solved is always right[0]; `right` holds S k at
// first.
template <typename C>
__device__ void SolveGroup(FewShared<C>& s, int group, int used,
                           TileSum (&right)[C::kBlocks]) {
#pragma unroll
  for (int b = 0; b < C::kBlocks; ++b) {
    if (b >= used) break;
    FormRightSide(reinterpret_cast<const unsigned char*>(
                      s.values.part[group][b / kPartBlocks]),
                  b % kPartBlocks, s.gates.heads[0], b, right[b]);
  }
  const int lane = threadIdx.x % 32;
#pragma unroll 1
  for (int j = 0; j < used; ++j) {
    const SplitBlock* const solve = s.matrices.solve;
    const BlockShare inverse(solve[BlockIndex{j, j}.Number()]);
    const BlockShare below(
        solve[BlockIndex{min(j + 1, C::kBlocks - 1), j}.Number()]);
    SplitOperand u;
    SplitTile(right[0], u);
    MultiplyAddApart(right[0], u, inverse);
    SplitTile(right[0], u);
    const uint32_t* h = u.high;
    const uint32_t* l = u.low;
    s.u[group][j % 2][0][lane] = {h[0], h[1], h[2], h[3]};
    s.u[group][j % 2][1][lane] = {l[0], l[1], l[2], l[3]};
    NamedBarrier<64>(kExchangeBarrier + group);
    if (j + 1 == used) break;
    // The block that is solved next comes first.
    MultiplyAddApart(right[1], u, below);
    MultiplyColumn<2>(solve, j, u, right);
    DropFirst(right);
  }
}

// The warp that reads out. It calls put(j, o) for each block of O^T of its
// columns. The next block is always o[0]; `o` holds S q at first.
template <typename C, typename Put>
__device__ void ReadGroup(const FewShared<C>& s, int group, int used,
                          TileSum (&o)[C::kBlocks], const Put& put) {
  ScaleReadout(s.gates.heads[0], o);
  const int lane = threadIdx.x % 32;
#pragma unroll 1
  for (int j = 0; j < used; ++j) {
    const SplitBlock* const readout = s.matrices.readout;
    const BlockShare own(readout[BlockIndex{j, j}.Number()]);
    NamedBarrier<64>(kExchangeBarrier + group);
    const uint4 h = s.u[group][j % 2][0][lane];
    const uint4 l = s.u[group][j % 2][1][lane];
    const SplitOperand u = {{h.x, h.y, h.z, h.w}, {l.x, l.y, l.z, l.w}};
    MultiplyAddApart(o[0], u, own);
    if (j + 1 < used) MultiplyColumn<1>(readout, j, u, o);
    put(j, o[0]);
    DropFirst(o);
  }
}

// Writes block j of O^T of a group over v, which the solver has read.
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

// Stores the block from there to global memory.
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

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_VERIFY_VERIFY_SOLVE_CUH_
