// The warps of verify_alone.cuh that have the value columns.
#ifndef BOLE_KERNELS_CUDA_VERIFY_VERIFY_ALONE_COLUMNS_CUH_
#define BOLE_KERNELS_CUDA_VERIFY_VERIFY_ALONE_COLUMNS_CUH_

#include <cstdint>

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/gdn/gdn_views.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/verify/tree_matrices.cuh"
#include "kernels/cuda/verify/verify_alone.cuh"
#include "kernels/cuda/verify/verify_columns.cuh"
#include "kernels/cuda/verify/verify_solve.cuh"
#include "kernels/cuda/verify/verify_tile.cuh"
#include "kernels/cuda/warp_barriers.cuh"
#include "kernels/cuda/wgmma.cuh"

namespace bole::cuda {

// A warp of the first warpgroup. For its group's 16 columns it has the state's
// high part and solves for U, or has the low part and reads O out. Block
// numbers are compile-time constants. Each block takes in the previous ones
// just before its own turn, so that the rows of the matrices may arrive one
// after the other.
class AloneColumns {
 public:
  __device__ AloneColumns(const GdnCoreParams& p, const LayerTile& tile,
                          int padded, AloneShared& s)
      : p_(p),
        tile_(tile),
        padded_(padded),
        s_(s),
        warp_(static_cast<int>(threadIdx.x) / 32),
        lane_(static_cast<int>(threadIdx.x) % 32),
        group_(warp_ % kAloneGroups),
        solves_(warp_ < kAloneGroups) {}

  // The copies of the state have been issued, as one group.
  __device__ void Run() {
    LoadValues();
    TileSum sums[kAloneBlocks];
    MultiplyState(sums);
    WaitFull(s_.gates_full);
    const int used = padded_ / kTileRows;
    if (solves_) {
      Solve(used, sums);
    } else {
      ReadOut(used, sums);
    }
  }

 private:
  using FlatSums = float[8 * kAloneBlocks];

  __device__ void LoadValues() {
    constexpr int kVectors = AloneConfig::kTileColumns / 8;
    const FactorRows<BFloat16> factors(p_.shape, p_.factors, p_.layer);
    const BFloat16* v = factors.v(tile_.first, tile_.head) + tile_.column;
#pragma unroll
    for (int i = threadIdx.x; i < kAloneNodes * kVectors;
         i += 32 * kGroupWarps) {
      const int node = i / kVectors;
      const int vector = i % kVectors;
      const bool valid = node < tile_.count;
      CopyAsync16(SharedAddress(s_.values.At(node, vector)),
                  v +
                      (valid ? node : 0) *
                          static_cast<int64_t>(p_.shape.value_width()) +
                      vector * 8,
                  valid);
    }
    CommitCopies();
  }

  // Computes S k for a warp that solves, S q for one that reads out.
  __device__ void MultiplyState(TileSum (&mine)[kAloneBlocks]) {
    SplitState();
    FlatSums keys;
    FlatSums queries;
    WaitFull(s_.keys_full);
    MultiplyParts(s_.keys, keys);
    WaitFull(s_.queries_full);
    MultiplyParts(s_.queries, queries);
    WgmmaWait<0>();
    WgmmaResults(keys);
    WgmmaResults(queries);
    AddHalves(keys, queries, mine);
  }

  // Each thread splits the chunks of the state that it copied itself.
  __device__ void SplitState() {
    WaitForCopies<1>();  // Not yet for the values.
#pragma unroll 4
    for (int n = 0; n < AloneConfig::kTileColumns / kGroupWarps; ++n) {
      const int row = warp_ + n * kGroupWarps;
      const float4 x = reinterpret_cast<const float4&>(
          s_.state.chunk[row][lane_ ^ row % 4 * 2]);
      uint2 high;
      uint2 low;
      SplitPair(x.x, x.y, high.x, low.x);
      SplitPair(x.z, x.w, high.y, low.y);
      *PartOf(row) = high;
      *PartOf(row + AloneConfig::kTileColumns) = low;
    }
    FenceForAsync();
    ArriveLanes(&s_.parts_full);
    WaitFull(s_.parts_full);
  }
  // The address of the lane's four columns of a row.
  __device__ uint2* PartOf(int row) {
    auto& parts = s_.parts;
    uint4& chunk =
        parts.chunk[lane_ / 16][row][parts.Swizzled(row, lane_ / 2 % 8)];
    return reinterpret_cast<uint2*>(&chunk) + lane_ % 2;
  }

  __device__ void MultiplyParts(const NodeRows<kAloneNodes>& rows,
                                FlatSums& sums) {
    WgmmaFence();
#pragma unroll
    for (int step = 0; step < kKeyDim / 16; ++step) {
      Wgmma64(sums, RowsOperand(s_.parts, step), RowsOperand(rows, step),
              step > 0);
    }
    WgmmaCommit();
  }

  // Exchanges sums with the other warp of the group: the warp that solves gets
  // those with keys, the warp that reads out those with queries.
  __device__ void AddHalves(const FlatSums& keys, const FlatSums& queries,
                            TileSum (&mine)[kAloneBlocks]) {
    const auto pick = [&](int i, bool of_keys) {
      return of_keys ? keys[i] : queries[i];
    };
#pragma unroll
    for (int i = 0; i < 2 * kAloneBlocks; ++i) {
      s_.halves[warp_][i][lane_] =
          make_float4(pick(4 * i, !solves_), pick(4 * i + 1, !solves_),
                      pick(4 * i + 2, !solves_), pick(4 * i + 3, !solves_));
    }
    WaitForCopies<0>();  // The values.
    ArriveLanes(&s_.halves_full);
    WaitFull(s_.halves_full);
    const int other = (warp_ + kAloneGroups) % kGroupWarps;
#pragma unroll
    for (int i = 0; i < 2 * kAloneBlocks; ++i) {
      const float4 x = s_.halves[other][i][lane_];
      const float of[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        mine[i / 2][i % 2][r] = pick(4 * i + r, solves_) + of[r];
      }
    }
  }

  // sum += u B^T for the first `count` blocks of U and of a row of a matrix, by
  // products that do not depend on the previous one.
  __device__ static void MultiplyAddRow(TileSum& sum,
                                        const SplitOperand (&u)[kAloneBlocks],
                                        const SplitBlock* row, int count) {
    if (count == 0) return;
    TileSum rest[2] = {};
#pragma unroll
    for (int i = 0; i < kAloneBlocks; ++i) {
      if (i == count) break;
      const BlockShare block(row[i]);
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        const uint4& b = block.rows[n];
        MultiplyAdd(sum[n], u[i].high, b.x, b.y);
        MultiplyAdd(rest[0][n], u[i].low, b.x, b.y);
        MultiplyAdd(rest[1][n], u[i].high, b.z, b.w);
      }
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      sum[i / 4][i % 4] += rest[0][i / 4][i % 4] + rest[1][i / 4][i % 4];
    }
  }

  // Forward substitution: each block of U is handed over as soon as it is
  // solved.
  __device__ void Solve(int used, TileSum (&right)[kAloneBlocks]) {
#pragma unroll
    for (int j = 0; j < kAloneBlocks; ++j) {
      FormRightSide(reinterpret_cast<const unsigned char*>(
                        s_.values.part[group_][j / kPartBlocks]),
                    j % kPartBlocks, s_.gates.heads[0], j, right[j]);
    }
    const SplitBlock* const solve = s_.matrices.solve;
    SplitOperand u[kAloneBlocks];
    WaitFull(s_.solve_full[0]);
#pragma unroll
    for (int j = 0; j < kAloneBlocks; ++j) {
      SplitTile(right[j], u[j]);
      MultiplyAddApart(right[j], u[j], BlockShare(solve[Number(j, j)]));
      const bool is_last = j + 1 == kAloneBlocks || j + 1 == used;
      if (!is_last) {
        WaitFull(s_.solve_full[j + 1]);
        MultiplyAddRow(right[j + 1], u, solve + Number(j + 1, 0), j);
      }
      SplitTile(right[j], u[j]);
      const uint32_t* h = u[j].high;
      const uint32_t* l = u[j].low;
      s_.u[group_][j][0][lane_] = {h[0], h[1], h[2], h[3]};
      s_.u[group_][j][1][lane_] = {l[0], l[1], l[2], l[3]};
      ArriveLanes(&s_.u_full[group_][j]);
      if (is_last) break;
      MultiplyAddApart(right[j + 1], u[j], BlockShare(solve[Number(j + 1, j)]));
    }
  }

  __device__ void ReadOut(int used, TileSum (&o)[kAloneBlocks]) {
    ScaleReadout(s_.gates.heads[0], o);
    const SplitBlock* const readout = s_.matrices.readout;
    SplitOperand u[kAloneBlocks];
#pragma unroll
    for (int j = 0; j < kAloneBlocks; ++j) {
      if (j == used) break;
      WaitFull(s_.readout_full[j]);
      MultiplyAddRow(o[j], u, readout + Number(j, 0), j);
      const BlockShare own(readout[Number(j, j)]);
      WaitFull(s_.u_full[group_][j]);
      const uint4 h = s_.u[group_][j][0][lane_];
      const uint4 l = s_.u[group_][j][1][lane_];
      u[j] = {{h.x, h.y, h.z, h.w}, {l.x, l.y, l.z, l.w}};
      MultiplyAddApart(o[j], u[j], own);
      Store(j, o[j]);
    }
  }

  // Stores block j of O^T to global memory.
  __device__ void Store(int j, const TileSum& o) const {
    BFloat16* const out =
        As<BFloat16>(p_.out) +
        static_cast<int64_t>(tile_.first) * p_.shape.value_width() +
        tile_.head * kValueDim + tile_.column + group_ * kColumns +
        lane_ % 4 * 2;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int node = j * kTileRows + i / 2 * 8 + lane_ / 4;
      const uint32_t pair = Transposed(
          PackBFloat16(o[i / 2][i % 2 * 2], o[i / 2][i % 2 * 2 + 1]));
      if (node < tile_.count) {
        *reinterpret_cast<uint32_t*>(out + node * p_.shape.value_width() +
                                     i % 2 * 8) = pair;
      }
    }
  }

  // The number of a block within a triangle.
  __device__ static constexpr int Number(int row, int column) {
    return row * (row + 1) / 2 + column;
  }

  const GdnCoreParams& p_;
  const LayerTile& tile_;
  const int padded_;
  AloneShared& s_;
  const int warp_;
  const int lane_;
  const int group_;
  const bool solves_;
};

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_VERIFY_VERIFY_ALONE_COLUMNS_CUH_
