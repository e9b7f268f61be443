// Named wrappers of the instructions for warp-wide tensor-core products of
// 16x16 tiles, and for asynchronous copies into shared memory.
//
// Fragments, for lane = 4 g + t (0 <= g < 8, 0 <= t < 4). An accumulator of 16
// rows and 8 columns holds {(g, 2t), (g, 2t+1), (g+8, 2t), (g+8, 2t+1)}. The
// left operand holds four pairs of bfloat16, (row, first column) =
// {(g, 2t), (g+8, 2t), (g, 2t+8), (g+8, 2t+8)}; the right one two, of column g
// and rows {2t, 2t+8}. So an accumulator of 16 columns already has the layout
// of a left operand, and its transpose that of a right one.
#ifndef BOLE_KERNELS_CUDA_MMA_CUH_
#define BOLE_KERNELS_CUDA_MMA_CUH_

#include <cuda_bf16.h>

#include <cstdint>

namespace bole::cuda {

// Sums of a 16x16 tile: two accumulators of 8 columns each.
using TileSum = float[2][4];

// A float32 operand as the sum of two bfloat16, exact to 2^-17 of the value.
struct SplitOperand {
  uint32_t high[4];
  uint32_t low[4];
};

__device__ inline uint32_t SharedAddress(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// Loads four 8x8 matrices of 16-bit elements. Lane 8 m + i provides the address
// of row i of matrix m, and each lane gets elements (g, 2t) and (g, 2t+1) of
// every matrix.
__device__ inline void LoadMatrices(uint32_t address, uint32_t (&m)[4]) {
  asm volatile(
      "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
      : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
      : "r"(address));
}

// The same for the transposed matrices: a lane gets elements (2t, g) and
// (2t+1, g).
__device__ inline void LoadTransposed(uint32_t address, uint32_t (&m)[4]) {
  asm volatile(
      "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
      : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
      : "r"(address));
}

// The transpose of an 8x8 matrix in the layout of LoadMatrices().
__device__ inline uint32_t Transposed(uint32_t matrix) {
  uint32_t result;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;"
               : "=r"(result)
               : "r"(matrix));
  return result;
}

// sum += a b, 16 x 16 by 16 x 8.
__device__ inline void MultiplyAdd(float (&sum)[4], const uint32_t (&a)[4],
                                   uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// x is in the lower half of the result.
__device__ inline uint32_t PackBFloat16(float x, float y) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(x, y);
  return reinterpret_cast<const uint32_t&>(pair);
}

__device__ inline void SplitPair(float x, float y, uint32_t& high,
                                 uint32_t& low) {
  high = PackBFloat16(x, y);
  low = PackBFloat16(x - __uint_as_float(high << 16),
                     y - __uint_as_float(high & 0xffff0000u));
}

// Turns a tile of sums into a left operand.
__device__ inline void SplitTile(const TileSum& tile, SplitOperand& a) {
#pragma unroll
  for (int n = 0; n < 2; ++n) {
    SplitPair(tile[n][0], tile[n][1], a.high[2 * n], a.low[2 * n]);
    SplitPair(tile[n][2], tile[n][3], a.high[2 * n + 1], a.low[2 * n + 1]);
  }
}

// sum += a b, exact to about 2^-16 of the magnitudes, where b = {high 0,
// high 1, low 0, low 1}. The product of the two low parts is left out.
__device__ inline void MultiplyAddSplit(float (&sum)[4], const SplitOperand& a,
                                        const uint4& b) {
  MultiplyAdd(sum, a.high, b.x, b.y);
  MultiplyAdd(sum, a.low, b.x, b.y);
  MultiplyAdd(sum, a.high, b.z, b.w);
}

// Copies 16 bytes from global to shared memory, or clears them there if not
// `valid`, without reading `from`. Both are aligned to 16 bytes.
__device__ inline void CopyAsync16(uint32_t to, const void* from, bool valid) {
  const int bytes = valid ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to),
               "l"(__cvta_generic_to_global(from)), "r"(bytes)
               : "memory");
}

// Closes a group of this thread's copies.
__device__ inline void CommitCopies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

// Waits until at most the kPending latest of this thread's groups are still in
// flight.
template <int kPending>
__device__ void WaitForCopies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_MMA_CUH_
