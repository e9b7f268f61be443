// The work of a warpgroup of gdn_verify_long.cu or gdn_verify_paths.cu on the
// value columns of one head after another, 64 at a time. All products are
// transposed, [columns, nodes]. With two such groups each has half of the
// columns.
#ifndef BOLE_KERNELS_CUDA_VERIFY_VERIFY_LONG_COLUMNS_CUH_
#define BOLE_KERNELS_CUDA_VERIFY_VERIFY_LONG_COLUMNS_CUH_

#include <cstdint>

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/verify/verify_batch.cuh"
#include "kernels/cuda/verify/verify_long.cuh"
#include "kernels/cuda/verify/verify_products.cuh"
#include "kernels/cuda/verify/verify_right_sides.cuh"
#include "kernels/cuda/verify/verify_state_box.cuh"
#include "kernels/cuda/wgmma.cuh"

namespace bole::cuda {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

template <typename Shared>
class LongColumns {
 public:
  __device__ LongColumns(const GdnCoreParams& p, Shared& s)
      : p_(p),
        s_(s),
        group_(Shared::kColumnGroups == 1
                   ? 0
                   : static_cast<int>(threadIdx.x / 128)) {}

  __device__ __forceinline__ void Run() {
#pragma unroll 1
    for (;;) {
      head_at_.WaitFull(s_.headers_full);
      const HeadHeader header = s_.headers[head_at_.stage];
      if (header.count == 0) break;
      rows_at_.WaitFull(&s_.rows_full[0]);
      rows_at_.WaitFull(&s_.rows_full[1]);
#pragma unroll 1
      for (int column = group_ * kGroupColumns; column < kLongColumns;
           column += kStep) {
        RunColumns(header, column);
      }
      if (header.ends) rows_at_.Advance();
      head_at_.Advance();
      matrix_at_.Advance();
    }
  }

 private:
  // The distance to the group's next columns.
  static constexpr int kStep = Shared::kColumnGroups * kGroupColumns;

  __device__ __forceinline__ void RunColumns(const HeadHeader& header,
                                             int column) {
    const bool is_last = column + kStep >= kLongColumns;
    Sums keys;
    Sums queries;
    MultiplyState(header.has_state, keys, queries);
    head_at_.WaitFull(s_.columns_full);
    const auto& gates = s_.columns[head_at_.stage];
    HalfOperand first;
    HalfOperand second;
    int held[2];
    // This overlaps the last products with queries.
    held[0] = FormRightSides(gates, header.count, 0, keys, first);
    WgmmaWait<0>();
    WgmmaResults(queries);
    if (is_last && header.ends) ArriveWarp(&s_.rows_empty);
    ScaleReadouts(gates, queries);
    matrix_at_.WaitFull(&s_.matrix_full);
    // O^T += R^T M^T. The second half is formed while the first is multiplied,
    // and the first half's outputs are stored while the second is multiplied.
    const uint64_t matrix = WgmmaOperand(AddressOf(&s_.matrix));
    WgmmaFence();
    MultiplyMatrix(matrix, 0, first, HalfOf(queries, 0));
    MultiplyMatrix(matrix, 1, first, HalfOf(queries, 1));
    WgmmaCommit();
    held[1] = FormRightSides(gates, header.count, 1, keys, second);
    if (is_last) ArriveLanes(s_.columns_empty + head_at_.stage);
    WgmmaFence();
    MultiplyMatrix(matrix, 2, second, HalfOf(queries, 1));
    WgmmaCommit();
    WgmmaWait<1>();
    WgmmaResults(HalfOf(queries, 0));
    PutOutputs(held[0], HalfOf(queries, 0));
    WgmmaWait<0>();
    WgmmaResults(HalfOf(queries, 1));
    if (is_last) ArriveWarp(&s_.matrix_empty);
    PutOutputs(held[1], HalfOf(queries, 1));
    Store(header, column, held);
  }

  // The sums of a thread, for all nodes and for half of them.
  using Sums = float[kLongNodes / 2];
  using HalfSums = float[kHalfNodes / 2];
  using HalfOperand = SplitOperand[kHalfTiles];

  __device__ unsigned char* Slot(int stage) {
    return reinterpret_cast<unsigned char*>(s_.ring[group_][stage]);
  }
  __device__ static HalfSums& HalfOf(Sums& sums, int half) {
    return reinterpret_cast<HalfSums&>(sums[half * kHalfNodes / 2]);
  }
  __device__ static int Warp() {
    return static_cast<int>(threadIdx.x / 32) % 4;
  }
  __device__ static int Lane() { return static_cast<int>(threadIdx.x % 32); }

  // (K S)^T and (Q S)^T of raw rows. The caller has to wait for the second.
  __device__ __forceinline__ void MultiplyState(bool has_state, Sums& keys,
                                                Sums& queries) {
    const uint64_t rows = WgmmaOperand(AddressOf(&s_.rows));
    StateBox next;
    TakeStateBox(next);
#pragma unroll
    for (int box = 0; box < kStateBoxes; ++box) {
      SplitOperand a[2];
      next.Split(a);
      // If the request has no state, the boxes may hold anything.
      if (!has_state) a[0] = a[1] = {};
      WgmmaFence();
      MultiplyBox(a, rows, 0, box, keys);
      WgmmaCommit();
      MultiplyBox(a, rows, kLongNodes * 128, box, queries);
      WgmmaCommit();
      if (box + 1 < kStateBoxes) {
        TakeStateBox(next);
        WgmmaWait<2>();
      }
    }
    WgmmaWait<1>();
    WgmmaResults(keys);
  }

  // sums (+)= S^T times the rows that begin `bytes` after the first, for a box
  // of the state.
  __device__ static __forceinline__ void MultiplyBox(const SplitOperand (&a)[2],
                                                     uint64_t rows, int bytes,
                                                     int box, Sums& sums) {
    constexpr int kPanel = sizeof(Shared::rows.chunk[0]);
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      const int step = 2 * box + n;
      const uint64_t b =
          WgmmaOperandBehind(rows, bytes + step / 4 * kPanel + step % 4 * 32);
      MultiplyRows<kLongNodes>(sums, a[n].high, b, step > 0);
      MultiplyRows<kLongNodes>(sums, a[n].low, b, true);
    }
  }

  __device__ __forceinline__ void TakeStateBox(StateBox& box) {
    ring_at_.WaitFull(s_.ring_full[group_]);
    box.Load(Slot(ring_at_.stage));
    FenceForAsync();  // Orders this read before the next copy.
    ArriveWarp(&s_.ring_empty[group_][ring_at_.stage]);
    ring_at_.Advance();
  }

  // The offset of the lane's row of 8 columns when four 8x8 blocks are moved:
  // nodes 16 tile .. + 15 of a box, the warp's 16 columns.
  __device__ static int TileOffset(int tile) {
    const int node = tile * 16 + Lane() / 16 * 8 + Lane() % 8;
    return node * 128 + ((2 * Warp() + Lane() / 8 % 2) ^ node % 8) * 16;
  }

  // R^T = (V - D_P K S)^T D_beta of half of the nodes, as left operands.
  // Returns the slot of v, which is not released yet.
  __device__ __forceinline__ int FormRightSides(
      const ColumnGates<kLongNodes>& gates, int count, int half,
      const Sums& keys, HalfOperand& right) {
    ring_at_.WaitFull(s_.ring_full[group_]);
    const int held = ring_at_.stage;
    ring_at_.Advance();
    const uint32_t values = AddressOf(Slot(held));
#pragma unroll
    for (int tile = 0; tile < kHalfTiles; ++tile) {
      const int block = half * kHalfTiles + tile;
      FormRightSide(gates, block * 16 + Lane() % 4 * 2, count,
                    values + TileOffset(tile), keys + block * 8, right[tile]);
    }
    return held;
  }

  // D_P Q S
  __device__ static __forceinline__ void ScaleReadouts(
      const ColumnGates<kLongNodes>& gates, Sums& queries) {
#pragma unroll
    for (int n = 0; n < kLongNodes / 8; ++n) {
      const float2 scale = *reinterpret_cast<const float2*>(
          gates.readout_scale + n * 8 + Lane() % 4 * 2);
#pragma unroll
      for (int i = 4 * n; i < 4 * n + 4; i += 2) {
        queries[i] *= scale.x;
        queries[i + 1] *= scale.y;
      }
    }
  }

  // sums += r B^T for block `number` of M.
  __device__ static __forceinline__ void MultiplyMatrix(uint64_t matrix,
                                                        int number,
                                                        const HalfOperand& r,
                                                        HalfSums& sums) {
#pragma unroll
    for (int j = 0; j < kHalfTiles; ++j) {
      const int bytes = number * kHalfNodes * 128 + j * 32;
      const uint64_t high = WgmmaOperandBehind(matrix, bytes);
      const uint64_t low =
          WgmmaOperandBehind(matrix, bytes + sizeof(Shared::matrix.part[0]));
      MultiplyRows<kHalfNodes>(sums, r[j].high, high, true);
      MultiplyRows<kHalfNodes>(sums, r[j].low, high, true);
      MultiplyRows<kHalfNodes>(sums, r[j].high, low, true);
    }
  }

  // Writes O of half of the nodes to the slot that held v. Each warp overwrites
  // only what it has read itself.
  __device__ __forceinline__ void PutOutputs(int held, const HalfSums& sums) {
#pragma unroll
    for (int tile = 0; tile < kHalfTiles; ++tile) {
      const float* x = sums + tile * 8;
      asm volatile(
          "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, "
          "%4};" ::"r"(AddressOf(Slot(held)) + TileOffset(tile)),
          "r"(PackBFloat16(x[0], x[1])), "r"(PackBFloat16(x[2], x[3])),
          "r"(PackBFloat16(x[4], x[5])), "r"(PackBFloat16(x[6], x[7]))
          : "memory");
    }
  }

  // Stores the outputs from there to global memory, 128 bytes of a node at a
  // time.
  __device__ __forceinline__ void Store(const HeadHeader& header, int column,
                                        const int (&held)[2]) {
    FenceForAsync();
    SyncThreads(kStoreBarrier + group_, 128);
    const int first = static_cast<int>(threadIdx.x) % 128 / 8;
    const int unit = static_cast<int>(threadIdx.x) % 8;
    const int64_t stride = p_.shape.value_width();
    BFloat16* const out = As<BFloat16>(p_.out) +
                          (header.first_row + first) * stride +
                          header.head * p_.shape.value_dim + column + unit * 8;
    uint4 units[2 * kHalfTiles];
#pragma unroll
    for (int tile = 0; tile < 2 * kHalfTiles; ++tile) {
      units[tile] = *reinterpret_cast<const uint4*>(
          Slot(held[tile / kHalfTiles]) +
          (tile % kHalfTiles * 16 + first) * 128 + (unit ^ first % 8) * 16);
    }
    FenceForAsync();  // Orders these reads before the next copy.
    ArriveWarp(&s_.ring_empty[group_][held[0]]);
    ArriveWarp(&s_.ring_empty[group_][held[1]]);
#pragma unroll
    for (int tile = 0; tile < 2 * kHalfTiles; ++tile) {
      if (tile * 16 + first < header.count) {
        *reinterpret_cast<uint4*>(out + tile * 16 * stride) = units[tile];
      }
    }
  }

  const GdnCoreParams& p_;
  Shared& s_;
  const int group_;
  StageAt<Shared::kSlots> ring_at_;
  StageAt<kHeadStages> head_at_;
  StageAt<1> rows_at_;
  StageAt<1> matrix_at_;
};

#endif

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_VERIFY_VERIFY_LONG_COLUMNS_CUH_
