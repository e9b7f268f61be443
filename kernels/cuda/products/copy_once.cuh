// Copies of data that is read only once, so that L2 evicts it first. For the
// products that stream weights, on Hopper.
#ifndef BOLE_KERNELS_CUDA_PRODUCTS_COPY_ONCE_CUH_
#define BOLE_KERNELS_CUDA_PRODUCTS_COPY_ONCE_CUH_

#include <cuda.h>

#include <cstdint>

namespace bole::cuda {

__device__ inline uint64_t ReadOnce() {
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

struct Corner {
  int column;
  int row;
};

// Like CopyBox (hopper.cuh), for data that is read only once.
__device__ inline void CopyBoxOnce(const CUtensorMap& map, Corner corner,
                                   uint32_t to, uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::"
      "bytes.L2::cache_hint [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to),
      "l"(&map), "r"(corner.column), "r"(corner.row), "r"(barrier),
      "l"(ReadOnce())
      : "memory");
}

// The same for maps of three and four dimensions.
__device__ inline void CopyBoxOnce(const CUtensorMap& map, int3 corner,
                                   uint32_t to, uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::"
      "bytes.L2::cache_hint [%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(to),
      "l"(&map), "r"(corner.x), "r"(corner.y), "r"(corner.z), "r"(barrier),
      "l"(ReadOnce())
      : "memory");
}

__device__ inline void CopyBoxOnce(const CUtensorMap& map, int4 corner,
                                   uint32_t to, uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::"
      "bytes.L2::cache_hint [%0], [%1, {%2, %3, %4, %5}], [%6], %7;" ::"r"(to),
      "l"(&map), "r"(corner.x), "r"(corner.y), "r"(corner.z), "r"(corner.w),
      "r"(barrier), "l"(ReadOnce())
      : "memory");
}

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_PRODUCTS_COPY_ONCE_CUH_
