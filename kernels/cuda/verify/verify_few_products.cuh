// The state of a tile of 64 columns times rows of nodes, by the four warps of a
// warpgroup at a time. sm_90a.
#ifndef BOLE_KERNELS_CUDA_VERIFY_VERIFY_FEW_PRODUCTS_CUH_
#define BOLE_KERNELS_CUDA_VERIFY_VERIFY_FEW_PRODUCTS_CUH_

#include <cstdint>

#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/verify/tree_matrices.cuh"
#include "kernels/cuda/wgmma.cuh"

namespace bole::cuda {

// d += a b^T: a [64, 16], 16 rows in each warp, b [16 kUsed, 16] in shared
// memory.
template <int kUsed, int kBlocks>
__device__ void MultiplyRows(TileSum (&d)[kBlocks], const uint32_t (&a)[4],
                             uint64_t b) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  if constexpr (kUsed == 1) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7}, "
        "{%8, %9, %10, %11}, %12, 1, 1, 1, 0;"
        : "+f"(d[0][0][0]), "+f"(d[0][0][1]), "+f"(d[0][0][2]),
          "+f"(d[0][0][3]), "+f"(d[0][1][0]), "+f"(d[0][1][1]),
          "+f"(d[0][1][2]), "+f"(d[0][1][3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
  } else if constexpr (kUsed == 2) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, "
        "%8, %9, %10, %11, %12, %13, %14, %15}, "
        "{%16, %17, %18, %19}, %20, 1, 1, 1, 0;"
        : "+f"(d[0][0][0]), "+f"(d[0][0][1]), "+f"(d[0][0][2]),
          "+f"(d[0][0][3]), "+f"(d[0][1][0]), "+f"(d[0][1][1]),
          "+f"(d[0][1][2]), "+f"(d[0][1][3]), "+f"(d[1][0][0]),
          "+f"(d[1][0][1]), "+f"(d[1][0][2]), "+f"(d[1][0][3]),
          "+f"(d[1][1][0]), "+f"(d[1][1][1]), "+f"(d[1][1][2]), "+f"(d[1][1][3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
  } else if constexpr (kUsed == 4) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, "
        "%8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, "
        "%24, %25, %26, %27, %28, %29, %30, %31}, "
        "{%32, %33, %34, %35}, %36, 1, 1, 1, 0;"
        : "+f"(d[0][0][0]), "+f"(d[0][0][1]), "+f"(d[0][0][2]),
          "+f"(d[0][0][3]), "+f"(d[0][1][0]), "+f"(d[0][1][1]),
          "+f"(d[0][1][2]), "+f"(d[0][1][3]), "+f"(d[1][0][0]),
          "+f"(d[1][0][1]), "+f"(d[1][0][2]), "+f"(d[1][0][3]),
          "+f"(d[1][1][0]), "+f"(d[1][1][1]), "+f"(d[1][1][2]),
          "+f"(d[1][1][3]), "+f"(d[2][0][0]), "+f"(d[2][0][1]),
          "+f"(d[2][0][2]), "+f"(d[2][0][3]), "+f"(d[2][1][0]),
          "+f"(d[2][1][1]), "+f"(d[2][1][2]), "+f"(d[2][1][3]),
          "+f"(d[3][0][0]), "+f"(d[3][0][1]), "+f"(d[3][0][2]),
          "+f"(d[3][0][3]), "+f"(d[3][1][0]), "+f"(d[3][1][1]),
          "+f"(d[3][1][2]), "+f"(d[3][1][3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
  }
#endif
}

// A group's columns of the state as left operands, some steps of 16 key columns
// ahead of the products. By a warp.
template <typename State>
class StateOperands {
 public:
  __device__ StateOperands(const State& state, int group)
      : state_(state), group_(group) {
#pragma unroll
    for (int step = 0; step < kAhead; ++step) {
      state.Load(group, step, operand_[step]);
    }
  }

  // sums += state rows^T for the first kUsed blocks of rows. By the warps of a
  // warpgroup, who have met those that wrote the rows.
  template <int kUsed, int kNodes, int kBlocks>
  __device__ void Multiply(const NodeRows<kNodes>& rows,
                           TileSum (&sums)[kBlocks]) {
    static_assert(kUsed <= kBlocks && 8 * kNodes * sizeof(uint4) % 1024 == 0);
    constexpr int kSteps = kKeyDim / 16;
    FenceForAsync();
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      SplitOperand& a = operand_[step % kAhead];
      if (step >= kAhead) {
        WgmmaWait<kAhead - 1>();  // Those that read the operand before.
        state_.Load(group_, step, a);
      }
      const uint64_t b =
          WgmmaOperand(AddressOf(&rows.chunk[step / 4][0][0]) + step % 4 * 32);
      WgmmaFence();
      MultiplyRows<kUsed>(sums, a.high, b);
      MultiplyRows<kUsed>(sums, a.low, b);
      WgmmaCommit();
    }
    WgmmaWait<0>();
#pragma unroll
    for (int block = 0; block < kUsed; ++block) {
      WgmmaResults(sums[block][0]);
      WgmmaResults(sums[block][1]);
    }
  }

 private:
  static constexpr int kAhead = 3;

  const State& state_;
  const int group_;
  SplitOperand operand_[kAhead];
};

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_VERIFY_VERIFY_FEW_PRODUCTS_CUH_
