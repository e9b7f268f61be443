// The work of a warpgroup on 64 value columns of one head after another. All
// products are transposed, [columns, nodes].
#ifndef BOLE_KERNELS_CUDA_VERIFY_VERIFY_BATCH_COLUMNS_CUH_
#define BOLE_KERNELS_CUDA_VERIFY_VERIFY_BATCH_COLUMNS_CUH_

#include <cstdint>

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/verify/verify_batch.cuh"
#include "kernels/cuda/verify/verify_products.cuh"
#include "kernels/cuda/verify/verify_right_sides.cuh"
#include "kernels/cuda/verify/verify_state_box.cuh"
#include "kernels/cuda/wgmma.cuh"

namespace bole::cuda {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

template <typename C>
class GroupColumns {
 public:
  __device__ GroupColumns(const GdnCoreParams& p, BatchShared<C>& s)
      : p_(p), s_(s), group_(static_cast<int>(threadIdx.x / 128)) {}

  __device__ __forceinline__ void Run() {
    StageAt<kGateStages> gates_at;
    StageAt<kRowStages> rows_at;
#pragma unroll 1
    for (;;) {
      gates_at.WaitFull(s_.headers_full);
      const HeadHeader header = s_.headers[gates_at.stage];
      if (header.count == 0) break;
      rows_at.WaitFull(s_.rows_full);
      float products[2 * kSums];  // With the keys, then with the queries.
      MultiplyState(header.has_state, s_.rows[rows_at.stage], products);
      if (header.ends) {
        ArriveWarp(s_.rows_empty + rows_at.stage);
        rows_at.Advance();
      }
      gates_at.WaitFull(s_.gates_full);
      const Gates& gates = s_.gates[gates_at.stage];
      SplitOperand right[C::kBlocks];
      const int held = FormRightSides(gates, header.count, products, right);
      Sums queries;
      ScaleReadouts(gates, products + kSums, queries);
      ArriveLanes(s_.gates_empty + gates_at.stage);
      gates_at.Advance();
      matrix_at_.WaitFull(&s_.matrix_full);
      ReadOut(right, queries);
      ArriveWarp(&s_.matrix_empty);
      Store(header, queries, held);
      matrix_at_.Advance();
    }
  }

 private:
  // The sums of a thread, for all nodes.
  static constexpr int kSums = C::kNodes / 2;
  using Sums = float[kSums];
  using Gates = typename BatchShared<C>::Gates;

  __device__ unsigned char* Slot(int stage) {
    return reinterpret_cast<unsigned char*>(s_.ring[group_][stage]);
  }
  __device__ static int Warp() {
    return static_cast<int>(threadIdx.x / 32) % 4;
  }
  __device__ static int Lane() { return static_cast<int>(threadIdx.x % 32); }

  // products = (K S)^T, (Q S)^T of raw rows.
  __device__ __forceinline__ void MultiplyState(
      bool has_state, const NodeRows<2 * C::kNodes>& rows,
      float (&products)[2 * kSums]) {
    if (!has_state) {
#pragma unroll
      for (int i = 0; i < 2 * kSums; ++i) products[i] = 0;
      return;
    }
    const uint64_t operand = WgmmaOperand(AddressOf(&rows));
    StateBox next;
    TakeStateBox(next);
#pragma unroll
    for (int box = 0; box < kStateBoxes; ++box) {
      SplitOperand a[2];
      next.Split(a);
      if (box + 1 < kStateBoxes) TakeStateBox(next);
      WgmmaFence();
      // One product for keys and queries together.
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        const int step = 2 * box + n;
        const uint64_t b = WgmmaOperandBehind(
            operand,
            step / 4 * static_cast<int>(sizeof(rows.chunk[0])) + step % 4 * 32);
        MultiplyRows<2 * C::kNodes>(products, a[n].high, b, step > 0);
        MultiplyRows<2 * C::kNodes>(products, a[n].low, b, true);
      }
      WgmmaCommit();
      WgmmaWait<1>();
    }
    WgmmaWait<0>();
    WgmmaResults(products);
  }

  __device__ __forceinline__ void TakeStateBox(StateBox& box) {
    ring_at_.WaitFull(s_.ring_full[group_]);
    box.Load(Slot(ring_at_.stage));
    FenceForAsync();  // Orders this read before the next copy.
    ArriveWarp(&s_.ring_empty[group_][ring_at_.stage]);
    ring_at_.Advance();
  }

  // The offset of the lane's row of 8 columns when four 8x8 blocks are moved:
  // nodes 16 block .. + 15 of a box, the warp's 16 columns.
  __device__ static int BlockOffset(int block) {
    const int node = block * 16 + Lane() / 16 * 8 + Lane() % 8;
    return Offset(node, Lane() / 8 % 2);
  }
  __device__ static int Offset(int node, int half) {
    return node * 128 + ((2 * Warp() + half) ^ node % 8) * 16;
  }

  // R^T = (V - D_P K S)^T D_beta, as left operands. Returns the slot of v,
  // which is not released yet.
  __device__ __forceinline__ int FormRightSides(
      const Gates& gates, int count, const float* keys,
      SplitOperand (&right)[C::kBlocks]) {
    ring_at_.WaitFull(s_.ring_full[group_]);
    const int held = ring_at_.stage;
    ring_at_.Advance();
    const uint32_t values = AddressOf(Slot(held));
#pragma unroll
    for (int block = 0; block < C::kBlocks; ++block) {
      FormRightSide(gates, block * 16 + Lane() % 4 * 2, count,
                    values + BlockOffset(block), keys + block * 8,
                    right[block]);
    }
    return held;
  }

  __device__ static __forceinline__ void ScaleReadouts(const Gates& gates,
                                                       const float* products,
                                                       Sums& queries) {
#pragma unroll
    for (int n = 0; n < kSums / 4; ++n) {
      const float2 scale = *reinterpret_cast<const float2*>(
          gates.readout_scale + n * 8 + Lane() % 4 * 2);
#pragma unroll
      for (int i = 0; i < 4; i += 2) {
        queries[4 * n + i] = scale.x * products[4 * n + i];
        queries[4 * n + i + 1] = scale.y * products[4 * n + i + 1];
      }
    }
  }

  // O^T += R^T M^T
  __device__ __forceinline__ void ReadOut(
      const SplitOperand (&right)[C::kBlocks], Sums& queries) {
    const uint64_t matrix = WgmmaOperand(AddressOf(s_.matrix.part[0]));
    WgmmaFence();
#pragma unroll
    for (int j = 0; j < C::kBlocks; ++j) {
      const uint64_t high = WgmmaOperandBehind(matrix, j * 32);
      const uint64_t low =
          WgmmaOperandBehind(high, static_cast<int>(sizeof(s_.matrix.part[0])));
      MultiplyRows<C::kNodes>(queries, right[j].high, high, true);
      MultiplyRows<C::kNodes>(queries, right[j].low, high, true);
      MultiplyRows<C::kNodes>(queries, right[j].high, low, true);
    }
    WgmmaCommit();
    WgmmaWait<0>();
    WgmmaResults(queries);
  }

  // Stores O to global memory, 128 bytes of a node at a time, through the slot
  // that held v. Each warp overwrites only what it has read itself.
  __device__ __forceinline__ void Store(const HeadHeader& header,
                                        const Sums& queries, int held) {
    unsigned char* const slot = Slot(held);
#pragma unroll
    for (int block = 0; block < C::kBlocks; ++block) {
      const float* x = queries + block * 8;
      asm volatile(
          "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, "
          "%4};" ::"r"(AddressOf(slot) + BlockOffset(block)),
          "r"(PackBFloat16(x[0], x[1])), "r"(PackBFloat16(x[2], x[3])),
          "r"(PackBFloat16(x[4], x[5])), "r"(PackBFloat16(x[6], x[7]))
          : "memory");
    }
    FenceForAsync();
    SyncThreads(kStoreBarrier + group_, 128);
    const int first = static_cast<int>(threadIdx.x) % 128 / 8;
    const int unit = static_cast<int>(threadIdx.x) % 8;
    uint4 units[C::kBlocks];
#pragma unroll
    for (int n = 0; n < C::kBlocks; ++n) {
      units[n] = *reinterpret_cast<const uint4*>(slot + (n * 16 + first) * 128 +
                                                 (unit ^ first % 8) * 16);
    }
    FenceForAsync();  // Orders these reads before the next copy.
    ArriveWarp(&s_.ring_empty[group_][held]);
    const int64_t stride = p_.shape.value_width();
    BFloat16* const out =
        As<BFloat16>(p_.out) + (header.first_row + first) * stride +
        header.head * p_.shape.value_dim + group_ * kGroupColumns + unit * 8;
#pragma unroll
    for (int n = 0; n < C::kBlocks; ++n) {
      if (n * 16 + first < header.count) {
        *reinterpret_cast<uint4*>(out + n * 16 * stride) = units[n];
      }
    }
  }

  const GdnCoreParams& p_;
  BatchShared<C>& s_;
  const int group_;
  StageAt<C::kSlots> ring_at_;
  StageAt<1> matrix_at_;
};

#endif

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_VERIFY_VERIFY_BATCH_COLUMNS_CUH_
