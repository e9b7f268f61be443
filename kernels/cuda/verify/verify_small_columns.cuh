// The work of a warpgroup on 64 value columns of a small tree. All products are
// transposed, [columns, nodes].
#ifndef BOLE_KERNELS_CUDA_VERIFY_VERIFY_SMALL_COLUMNS_CUH_
#define BOLE_KERNELS_CUDA_VERIFY_VERIFY_SMALL_COLUMNS_CUH_

#include <cstdint>

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/verify/verify_products.cuh"
#include "kernels/cuda/verify/verify_right_sides.cuh"
#include "kernels/cuda/verify/verify_small.cuh"
#include "kernels/cuda/wgmma.cuh"

namespace bole::cuda {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// For trees of up to 16 kUsed nodes.
template <int kUsed>
class SmallColumns {
 public:
  __device__ SmallColumns(const GdnCoreParams& p, const HalfHead& item,
                          SmallShared& s)
      : p_(p), item_(item), s_(s) {}

  __device__ __forceinline__ void Run() {
    float products[2 * kSums];  // With the keys, then with the queries.
    MultiplyState(products);
    WaitBarrier(AddressOf(&s_.gates_full), 0);
    TileSum out[kUsed];
    ScaleReadouts(products + kSums, out);
    SplitOperand right[kUsed];
    WaitBarrier(AddressOf(&s_.values_full), 0);
    FormRightSides(products, right);
    WaitBarrier(AddressOf(&s_.matrix_full), 0);
#pragma unroll
    for (int i = 0; i < kUsed; ++i) {
#pragma unroll
      for (int j = 0; j <= i; ++j) {
        MultiplyAddBlock(out[i], right[j],
                         s_.blocks[BlockIndex{i, j}.Number()]);
      }
    }
    Store(out);
  }

 private:
  static constexpr int kSums = 8 * kUsed;  // A thread's sums, for all nodes.

  __device__ static int Warp() { return static_cast<int>(threadIdx.x) / 32; }
  __device__ static int Lane() { return static_cast<int>(threadIdx.x) % 32; }

  // products = (K S)^T, (Q S)^T of raw rows, the state in two bfloat16 parts.
  __device__ __forceinline__ void MultiplyState(float (&products)[2 * kSums]) {
    WaitBarrier(AddressOf(&s_.rows_full), 0);
    if (!item_.has_state) {
#pragma unroll
      for (int i = 0; i < 2 * kSums; ++i) products[i] = 0;
      return;
    }
    const uint64_t rows = WgmmaOperand(AddressOf(&s_.rows));
    StateBox next;
    LoadBox(0, next);
#pragma unroll
    for (int box = 0; box < kStateBoxes; ++box) {
      SplitOperand a[2];
      next.Split(a);
      WgmmaFence();
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        const int step = 2 * box + n;
        const uint64_t b = WgmmaOperandBehind(
            rows, step / 4 * static_cast<int>(sizeof(s_.rows.chunk[0])) +
                      step % 4 * 32);
        MultiplyRows<4 * kSums>(products, a[n].high, b, step > 0);
        MultiplyRows<4 * kSums>(products, a[n].low, b, true);
      }
      WgmmaCommit();
      if (box + 1 < kStateBoxes) LoadBox(box + 1, next);
      WgmmaWait<0>();
    }
    WgmmaResults(products);
  }

  __device__ __forceinline__ void LoadBox(int number, StateBox& box) {
    WaitBarrier(AddressOf(&s_.state_full[number]), 0);
    box.Load(reinterpret_cast<const unsigned char*>(s_.state[number]));
  }

  // D_P Q S
  __device__ __forceinline__ void ScaleReadouts(const float* queries,
                                                TileSum (&out)[kUsed]) const {
#pragma unroll
    for (int i = 0; i < kSums; i += 4) {
      const float2 scale = *reinterpret_cast<const float2*>(
          s_.gates.readout_scale + 2 * i + Lane() % 4 * 2);
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        out[i / 8][i / 4 % 2][r] =
            (r % 2 == 0 ? scale.x : scale.y) * queries[i + r];
      }
    }
  }

  // The address of the lane's row of 8 columns when four 8x8 blocks are moved:
  // nodes 16 block .. + 15, the warp's 16 columns.
  __device__ uint32_t ValuesAt(int block) const {
    return AddressOf(
        Unit(block * kTileRows + Lane() / 16 * 8 + Lane() % 8, Lane() / 8 % 2));
  }
  __device__ uint4* Unit(int node, int half) const {
    return &s_.values[node][(2 * Warp() + half) ^ node % 8];
  }

  // R^T = (V - D_P K S)^T D_beta
  __device__ __forceinline__ void FormRightSides(
      const float* keys, SplitOperand (&right)[kUsed]) const {
#pragma unroll
    for (int block = 0; block < kUsed; ++block) {
      FormRightSide(s_.gates, block * kTileRows + Lane() % 4 * 2, item_.count,
                    ValuesAt(block), keys + block * 8, right[block]);
    }
  }

  // Stores O through the memory of v. Each warp overwrites only what it has
  // read itself.
  __device__ __forceinline__ void Store(const TileSum (&out)[kUsed]) const {
#pragma unroll
    for (int block = 0; block < kUsed; ++block) {
      const TileSum& x = out[block];
      asm volatile(
          "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, "
          "%4};" ::"r"(ValuesAt(block)),
          "r"(PackBFloat16(x[0][0], x[0][1])),
          "r"(PackBFloat16(x[0][2], x[0][3])),
          "r"(PackBFloat16(x[1][0], x[1][1])),
          "r"(PackBFloat16(x[1][2], x[1][3]))
          : "memory");
    }
    __syncwarp();
    const int64_t stride = p_.shape.value_width();
    BFloat16* const to = As<BFloat16>(p_.out) + item_.first_row * stride +
                         item_.head * p_.shape.value_dim + item_.column +
                         Warp() * kTileRows + Lane() % 2 * 8;
#pragma unroll
    for (int block = 0; block < kUsed; ++block) {
      const int node = block * kTileRows + Lane() / 2;
      if (node < item_.count) {
        *reinterpret_cast<uint4*>(to + node * stride) = *Unit(node, Lane() % 2);
      }
    }
  }

  const GdnCoreParams& p_;
  const HalfHead& item_;
  SmallShared& s_;
};

#endif

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_VERIFY_VERIFY_SMALL_COLUMNS_CUH_
