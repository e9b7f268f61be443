// Products of a warpgroup with few columns: 8, 16, 32, 48 or 64. For sm_90a
// only. The rules and the layout of the results are those of wgmma.cuh.
#ifndef BOLE_KERNELS_CUDA_PRODUCTS_WGMMA_FEW_CUH_
#define BOLE_KERNELS_CUDA_PRODUCTS_WGMMA_FEW_CUH_

#include <cstdint>

#include "kernels/cuda/wgmma.cuh"

namespace bole::cuda {

// A vector at `address`, a multiple of 16, as the second operand of products of
// 8 columns. Only the first column is meaningful: the others are what lies 16
// to 112 bytes after it.
__device__ inline uint64_t WgmmaVector(uint32_t address) {
  constexpr uint64_t kNextColumns = uint64_t{16 / 16} << 16;
  return kNextColumns | static_cast<uint64_t>((address & 0x3ffff) / 16);
}

// d = a b^T, or d += if `add`: a [64, 16] and b [kColumns, 16] in shared
// memory, both with the summed dimension along rows.
template <int kColumns>
__device__ void WgmmaFew(float (&d)[kColumns / 2], uint64_t a, uint64_t b,
                         bool add);

template <>
__device__ inline void WgmmaFew<8>(float (&d)[4], uint64_t a, uint64_t b,
                                   bool add) {
  asm volatile(
      "{\n"
      ".reg .pred add;\n"
      "setp.ne.b32 add, %6, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3}, "
      "%4, %5, add, 1, 1, 0, 0;\n"
      "}\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "l"(a), "l"(b), "r"(static_cast<int>(add)));
}

template <>
__device__ inline void WgmmaFew<16>(float (&d)[8], uint64_t a, uint64_t b,
                                    bool add) {
  asm volatile(
      "{\n"
      ".reg .pred add;\n"
      "setp.ne.b32 add, %10, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7}, "
      "%8, %9, add, 1, 1, 0, 0;\n"
      "}\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),
        "+f"(d[6]), "+f"(d[7])
      : "l"(a), "l"(b), "r"(static_cast<int>(add)));
}

template <>
__device__ inline void WgmmaFew<32>(float (&d)[16], uint64_t a, uint64_t b,
                                    bool add) {
  asm volatile(
      "{\n"
      ".reg .pred add;\n"
      "setp.ne.b32 add, %18, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, "
      "%14, %15}, "
      "%16, %17, add, 1, 1, 0, 0;\n"
      "}\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),
        "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]),
        "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
      : "l"(a), "l"(b), "r"(static_cast<int>(add)));
}

template <>
__device__ inline void WgmmaFew<48>(float (&d)[24], uint64_t a, uint64_t b,
                                    bool add) {
  asm volatile(
      "{\n"
      ".reg .pred add;\n"
      "setp.ne.b32 add, %26, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n48k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23}, "
      "%24, %25, add, 1, 1, 0, 0;\n"
      "}\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),
        "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]),
        "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
        "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]),
        "+f"(d[21]), "+f"(d[22]), "+f"(d[23])
      : "l"(a), "l"(b), "r"(static_cast<int>(add)));
}

template <>
__device__ inline void WgmmaFew<64>(float (&d)[32], uint64_t a, uint64_t b,
                                    bool add) {
  Wgmma64(d, a, b, add);
}

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_PRODUCTS_WGMMA_FEW_CUH_
