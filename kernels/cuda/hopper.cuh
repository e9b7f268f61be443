// Hopper's instructions for kernels that stream tiles: barriers in shared
// memory that count bytes, copies of boxes of a tensor, clusters of blocks.
// They need sm_90 or later. Addresses of shared memory are 32-bit, as
// AddressOf() returns them.
#ifndef BOLE_KERNELS_CUDA_HOPPER_CUH_
#define BOLE_KERNELS_CUDA_HOPPER_CUH_

#include <cuda.h>

#include <cstdint>

namespace bole::cuda {

__device__ inline uint32_t AddressOf(const void* shared) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(shared));
}

// A barrier whose phases end when `arrivals` have arrived and the bytes that
// they announced have been copied. The first phase has parity 0.
__device__ inline void InitBarrier(uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier),
               "r"(arrivals)
               : "memory");
}

// Called after InitBarrier(); makes the barriers visible to copies and to the
// cluster.
__device__ inline void FenceBarrierInit() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ inline void Arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier)
               : "memory");
}

__device__ inline void ArriveExpecting(uint32_t barrier, int bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier),
      "r"(bytes)
      : "memory");
}

// Returns when the phase of this parity has ended.
__device__ inline void WaitBarrier(uint32_t barrier, uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra ended;\n"
      "bra again;\n"
      "ended:\n"
      "}\n" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

// Copies the map's box at (column, row) to shared memory; its bytes count at
// the barrier.
__device__ inline void CopyBox(const CUtensorMap& map, int column, int row,
                               uint32_t to, uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::"
      "bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(to),
      "l"(&map), "r"(column), "r"(row), "r"(barrier)
      : "memory");
}

// Copies `bytes`, a multiple of 16, to shared memory; they count at the
// barrier.
__device__ inline void CopyBulk(const void* from, uint32_t to, int bytes,
                                uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1], %2, [%3];" ::"r"(to),
      "l"(from), "r"(bytes), "r"(barrier)
      : "memory");
}

// Copies the first `bytes` of 16 bytes; the rest become 0. WaitForUnits() waits
// for all such copies that the thread has started.
__device__ inline void CopyUnit(const void* from, uint32_t to, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to),
               "l"(from), "r"(bytes)
               : "memory");
}
__device__ inline void WaitForUnits() {
  asm volatile("cp.async.wait_all;" ::: "memory");
}

// Prefetches the map, which will be used soon.
__device__ inline void PrefetchMap(const CUtensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

// Orders this thread's ordinary accesses of shared memory before what tensor
// cores and copies do after the next barrier.
__device__ inline void FenceForAsync() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Waits for `threads` threads of the block that name the same barrier, 1..15.
__device__ inline void SyncThreads(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

// Sets the registers per thread for all warps of a warpgroup from here on.
// ShrinkRegisters() gives some back, and GrowRegisters() waits until others
// have given back enough. kRegisters is a multiple of 8. sm_90a only.
template <int kRegisters>
__device__ void ShrinkRegisters() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ void GrowRegisters() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// A block's number within its cluster. A launch without clusters has clusters
// of one block.
__device__ inline int ClusterRank() {
  uint32_t rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return static_cast<int>(rank);
}

// Synchronises all threads of the cluster; earlier writes are visible after it.
__device__ inline void SyncCluster() {
  __syncwarp();
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// The address in block `rank` of the cluster of what this block has at
// `shared`.
template <typename T>
__device__ T* InBlock(T* shared, int rank) {
  uint64_t address;
  asm("mapa.u64 %0, %1, %2;"
      : "=l"(address)
      : "l"(reinterpret_cast<uint64_t>(shared)), "r"(rank));
  return reinterpret_cast<T*>(address);
}

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_HOPPER_CUH_
