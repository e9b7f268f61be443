// How blocks of a cluster meet and what they send each other. sm_90 and later.
#ifndef BOLE_KERNELS_CUDA_VERIFY_VERIFY_CLUSTER_CUH_
#define BOLE_KERNELS_CUDA_VERIFY_VERIFY_CLUSTER_CUH_

#include <cstdint>

#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/mma.cuh"

namespace bole::cuda {

// Says nothing of memory but barriers.
__device__ inline void ArriveAtCluster() {
  __syncwarp();
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
__device__ inline void WaitForCluster() {
  __syncwarp();
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// Where block `rank` of the cluster has what this block has at `shared`.
__device__ inline uint32_t AddressInBlock(const void* shared, int rank) {
  uint32_t address;
  asm("mapa.shared::cluster.u32 %0, %1, %2;"
      : "=r"(address)
      : "r"(SharedAddress(shared)), "r"(rank));
  return address;
}
// Stores at `to` in block `rank` of the cluster, and counts the bytes at its
// `barrier`.
__device__ inline void SendAsync(const void* to, const uint4& x,
                                 const void* barrier, int rank) {
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 "
      "[%0], {%1, %2, %3, %4}, [%5];" ::"r"(AddressInBlock(to, rank)),
      "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w), "r"(AddressInBlock(barrier, rank))
      : "memory");
}
__device__ inline void SendAsync(const void* to, float x, const void* barrier,
                                 int rank) {
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, "
      "[%2];" ::"r"(AddressInBlock(to, rank)),
      "r"(__float_as_uint(x)), "r"(AddressInBlock(barrier, rank))
      : "memory");
}

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_VERIFY_VERIFY_CLUSTER_CUH_
