// Products of a warpgroup (wgmma.cuh) whose left operand is in registers, so
// that the result of one product becomes an operand of the next without passing
// through shared memory.
#ifndef BOLE_KERNELS_CUDA_PREFILL_CHUNK_PRODUCTS_CUH_
#define BOLE_KERNELS_CUDA_PREFILL_CHUNK_PRODUCTS_CUH_

#include <cstdint>

namespace bole::cuda {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// 16 columns of a [64, ...] operand, in bfloat16. Word h + 2 j of thread t of
// the warpgroup: row 16 (t / 32) + t % 32 / 4 + 8 h, columns 8 j + 2 (t % 4)
// and the next.
struct Fragment {
  uint32_t word[4];
};

// d (+)= a b^T, of a [64, 16] and b [kColumns, 16] in shared memory,
// or with kTransposed b [16, kColumns]. In thread t of the warpgroup, element
// 4 j + 2 h + i of the result is row 16 (t / 32) + t % 32 / 4 + 8 h, column
// 8 j + 2 (t % 4) + i. Neither d nor a may be touched before the wait.
template <int kColumns, bool kTransposed>
__device__ __forceinline__ void MultiplyFragment(float (&d)[kColumns / 2],
                                                 const Fragment& a, uint64_t b,
                                                 bool add) {
  if constexpr (kColumns == 64) {
    asm volatile(
        "{\n"
        ".reg .pred add;\n"
        "setp.ne.b32 add, %37, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, "
        "%13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "
        "%24, %25, %26, %27, %28, %29, %30, %31}, "
        "{%32, %33, %34, %35}, %36, add, 1, 1, %38;\n"
        "}\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]),
          "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]),
          "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]),
          "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]),
          "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]),
          "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]),
          "+f"(d[30]), "+f"(d[31])
        : "r"(a.word[0]), "r"(a.word[1]), "r"(a.word[2]), "r"(a.word[3]),
          "l"(b), "r"(static_cast<int>(add)), "n"(kTransposed ? 1 : 0));
  } else if constexpr (kColumns == 128) {
    asm volatile(
        "{\n"
        ".reg .pred add;\n"
        "setp.ne.b32 add, %69, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, "
        "%13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "
        "%24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, "
        "%35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, "
        "%46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, "
        "%57, %58, %59, %60, %61, %62, %63}, "
        "{%64, %65, %66, %67}, %68, add, 1, 1, %70;\n"
        "}\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]),
          "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]),
          "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]),
          "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]),
          "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]),
          "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]),
          "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]),
          "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),
          "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]),
          "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]), "+f"(d[49]),
          "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]),
          "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]),
          "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
        : "r"(a.word[0]), "r"(a.word[1]), "r"(a.word[2]), "r"(a.word[3]),
          "l"(b), "r"(static_cast<int>(add)), "n"(kTransposed ? 1 : 0));
  } else {
    static_assert(kColumns == 64, "no such width");
  }
}

#endif

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_PREFILL_CHUNK_PRODUCTS_CUH_
