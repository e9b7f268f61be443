// Synchronisation of, and messages between, the blocks of a cluster, for sm_90
// and later.
#ifndef BOLE_KERNELS_CUDA_CLUSTER_CUH_
#define BOLE_KERNELS_CUDA_CLUSTER_CUH_

#include <cstdint>

#include "kernels/cuda/hopper.cuh"

namespace bole::cuda {

// Orders no accesses to memory except the initialisation of barriers.
__device__ inline void ArriveAtCluster() {
  __syncwarp();
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
// Writes before this call are visible after WaitForCluster().
__device__ inline void ReleaseToCluster() {
  __syncwarp();
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
__device__ inline void WaitForCluster() {
  __syncwarp();
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// The address in block `rank` of the cluster of what this block has at
// `shared`.
__device__ inline uint32_t AddressInBlock(const void* shared, int rank) {
  uint32_t address;
  asm("mapa.shared::cluster.u32 %0, %1, %2;"
      : "=r"(address)
      : "r"(AddressOf(shared)), "r"(rank));
  return address;
}
// Stores in another block and counts the bytes at a barrier there. Both
// addresses come from AddressInBlock().
__device__ inline void SendAsync(uint32_t to, const uint4& x,
                                 uint32_t barrier) {
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 "
      "[%0], {%1, %2, %3, %4}, [%5];" ::"r"(to),
      "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w), "r"(barrier)
      : "memory");
}
// The same for block `rank`. `to` and `barrier` are addresses in this block.
__device__ inline void SendAsync(const void* to, const uint4& x,
                                 const void* barrier, int rank) {
  SendAsync(AddressInBlock(to, rank), x, AddressInBlock(barrier, rank));
}
__device__ inline void SendAsync(const void* to, float2 x, const void* barrier,
                                 int rank) {
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [%0], "
      "{%1, %2}, [%3];" ::"r"(AddressInBlock(to, rank)),
      "r"(__float_as_uint(x.x)), "r"(__float_as_uint(x.y)),
      "r"(AddressInBlock(barrier, rank))
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

#endif  // BOLE_KERNELS_CUDA_CLUSTER_CUH_
