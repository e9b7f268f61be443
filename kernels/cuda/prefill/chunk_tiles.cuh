// Tiles of 64 columns of bfloat16 in shared memory, in the layout that wgmma
// reads: rows of 128 bytes whose eight vectors are permuted depending on the
// row, so that a column of vectors covers all banks. Tiles start at multiples
// of 1024 bytes.
#ifndef BOLE_KERNELS_CUDA_PREFILL_CHUNK_TILES_CUH_
#define BOLE_KERNELS_CUDA_PREFILL_CHUNK_TILES_CUH_

#include <cstdint>

namespace bole::cuda {

inline constexpr int kTileRowBytes = 128;

// Byte offset of vector `vector` (8 elements) of row `row`.
__device__ inline int TileOffset(int row, int vector) {
  return row * kTileRowBytes + ((vector ^ (row & 7)) << 4);
}

__device__ inline uint32_t SharedBytes(const void* shared) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(shared));
}

// Starts an asynchronous copy of 16 bytes to shared memory. If `is_there` is
// false, it writes zeros and does not read `from`.
__device__ inline void CopyVectorAsync(uint32_t to, const void* from,
                                       bool is_there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to),
               "l"(from), "r"(is_there ? 16 : 0)
               : "memory");
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// Makes ordinary writes to shared memory visible to wgmma and the copy engine.
__device__ inline void FenceShared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

#endif

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_PREFILL_CHUNK_TILES_CUH_
