// Products of a warpgroup (wgmma.cuh) whose left operand is in registers, with
// as many columns as fused verification has nodes. For sm_90a only.
#ifndef BOLE_KERNELS_CUDA_VERIFY_VERIFY_PRODUCTS_CUH_
#define BOLE_KERNELS_CUDA_VERIFY_VERIFY_PRODUCTS_CUH_

#include <cstdint>

namespace bole::cuda {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

#define BOLE_SUMS4(d, i) \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define BOLE_SUMS8(d, i) BOLE_SUMS4(d, i), BOLE_SUMS4(d, i + 4)
#define BOLE_SUMS16(d, i) BOLE_SUMS8(d, i), BOLE_SUMS8(d, i + 8)
#define BOLE_SUMS32(d, i) BOLE_SUMS16(d, i), BOLE_SUMS16(d, i + 16)
#define BOLE_SUMS64(d, i) BOLE_SUMS32(d, i), BOLE_SUMS32(d, i + 32)

// d = a b^T, or += if `adds`: a [64, 16] in registers, b [kColumns, 16] in
// shared memory. Neither d nor a may be touched before the wait.
template <int kColumns>
__device__ __forceinline__ void MultiplyRows(float (&d)[kColumns / 2],
                                             const uint32_t (&a)[4], uint64_t b,
                                             bool adds) {
  static_assert(kColumns == 32 || kColumns == 64 || kColumns == 128);
  if constexpr (kColumns == 32) {
    asm volatile(
        "{\n"
        ".reg .pred adds;\n"
        "setp.ne.b32 adds, %21, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, "
        "%13, %14, %15}, "
        "{%16, %17, %18, %19}, %20, adds, 1, 1, 0;\n"
        "}\n"
        : BOLE_SUMS16(d, 0)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b),
          "r"(static_cast<int>(adds)));
  } else if constexpr (kColumns == 64) {
    asm volatile(
        "{\n"
        ".reg .pred adds;\n"
        "setp.ne.b32 adds, %37, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, "
        "%13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, "
        "%26, %27, %28, %29, %30, %31}, "
        "{%32, %33, %34, %35}, %36, adds, 1, 1, 0;\n"
        "}\n"
        : BOLE_SUMS32(d, 0)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b),
          "r"(static_cast<int>(adds)));
  } else {
    asm volatile(
        "{\n"
        ".reg .pred adds;\n"
        "setp.ne.b32 adds, %69, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, "
        "%13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, "
        "%26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, "
        "%39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, "
        "%52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
        "{%64, %65, %66, %67}, %68, adds, 1, 1, 0;\n"
        "}\n"
        : BOLE_SUMS64(d, 0)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b),
          "r"(static_cast<int>(adds)));
  }
}

#undef BOLE_SUMS4
#undef BOLE_SUMS8
#undef BOLE_SUMS16
#undef BOLE_SUMS32
#undef BOLE_SUMS64

#endif

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_VERIFY_VERIFY_PRODUCTS_CUH_
