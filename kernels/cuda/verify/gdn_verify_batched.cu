// Verification of trees with many heads, by blocks whose warps have roles. Some
// build
//
//   M = C (I + G)^-1
//
// over the nodes, while warpgroups multiply the state, 64 value columns each;
// then
//
//   R^T = (V - D_P K S)^T D_beta     state in two bfloat16 parts times raw k
//   O^T = (D_P Q S)^T + R^T M^T      R and M in two bfloat16 parts
//
// Left operands are in registers: the state in the layout that it has in
// memory, and sums.
#include "kernels/cuda/verify/gdn_verify_batched.h"

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/check.h"
#include "kernels/cuda/gdn/gdn_views.cuh"
#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/verify/verify_batch.cuh"
#include "kernels/cuda/verify/verify_batch_columns.cuh"
#include "kernels/cuda/verify/verify_batch_gates.cuh"
#include "kernels/cuda/verify/verify_batch_launch.cuh"
#include "kernels/cuda/verify/verify_batch_loads.cuh"
#include "kernels/cuda/verify/verify_batch_matrix.cuh"
#include "kernels/cuda/verify/verify_small.cuh"
#include "kernels/cuda/verify/verify_small_columns.cuh"
#include "kernels/cuda/verify/verify_small_loads.cuh"
#include "kernels/cuda/verify/verify_small_matrix.cuh"
#include "kernels/cuda/warp_barriers.cuh"

namespace bole::cuda {
namespace {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// The warps that load: one for the states and v, one for k and q, two for the
// gates.
template <typename C>
__device__ void RunLoaders(const GdnCoreParams& p, const VerifyMaps& maps,
                           BatchTask task, const VerifyItem& first,
                           BatchShared<C>& s) {
  const int warp = static_cast<int>(threadIdx.x / 32) % 4;
  if (warp >= 2) {
    LoadGates(p, task, first, s);
  } else if (threadIdx.x % 32 == 0) {
    if (warp == 0) {
      LoadStatesAndValues(p, maps, task, first, s);
    } else {
      LoadRows(p, maps, task, first, s);
    }
  }
}

#endif

// There is one block for each multiprocessor. It prefetches across heads.
template <typename C>
__global__ void __launch_bounds__(kBatchThreads, 1)
    BatchedKernel(const __grid_constant__ GdnCoreParams p,
                  const __grid_constant__ VerifyMaps maps, BatchTask task) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(1024) unsigned char memory[];
  auto& s = *reinterpret_cast<BatchShared<C>*>(memory);
  // It is loaded while the barriers are initialised.
  const auto first = VerifyItem::First(p, task);
  BeginBlock(maps, s);
  const int group = static_cast<int>(threadIdx.x / 128);
  if (group < kColumnGroups) {
    GrowRegisters<kColumnRegisters>();
    GroupColumns<C>(p, s).Run();
  } else if (group == kBuilderGroup) {
    GrowRegisters<kBuilderRegisters>();
    MatrixBuilder<C>(s).Run();
  } else {
    ShrinkRegisters<kLoaderRegisters>();
    RunLoaders<C>(p, maps, task, first, s);
  }
#endif
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// Run by the two warps after those of the columns, for trees of up to 16 kUsed
// nodes.
template <int kUsed>
__device__ __forceinline__ void BuildSmall(const GdnCoreParams& p,
                                           const VerifyMaps& maps,
                                           const HalfHead& item, uint32_t bits,
                                           SmallShared& s) {
  WaitForPrevious();
  SmallMatrix<kUsed> matrix(s, bits);
  if (threadIdx.x / 32 == kSmallColumnWarps) {
    if (threadIdx.x % 32 == 0) {
      CopyRows(p, maps, item, s);
      CopyState(p, maps, item, kSmallEarlyBoxes, kStateBoxes, s);
    }
    __syncwarp();
    WaitBarrier(AddressOf(&s.rows_full), 0);
    matrix.BuildSolve();
  } else {
    LoadSmallGates(p, item, bits, s.gates);
    ArriveLanes(&s.gates_full);
    WaitBarrier(AddressOf(&s.rows_full), 0);
    matrix.BuildMatrix();
  }
}

#endif

// The kernel for small trees. A block has half of the columns of one value head
// and keeps its part of the state in shared memory. There are many independent
// blocks, several on a multiprocessor. While one waits or multiplies, the
// states of others are loaded, and blocks of the next launch start as soon as
// there is room for them. Grid: halves of the value heads of a key head, key
// heads, requests.
__global__ void __launch_bounds__(kSmallThreads, kSmallBlocks)
    SmallKernel(const __grid_constant__ GdnCoreParams p,
                const __grid_constant__ VerifyMaps maps) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(1024) unsigned char memory[];
  auto& s = *reinterpret_cast<SmallShared*>(memory);
  StartNext();
  const HalfHead item(p);
  if (item.count <= 0) {
    WaitForPrevious();  // A kernel has waited when it ends, empty or not.
    return;
  }
  if (item.count > kSmallNodes) __trap();
  if (threadIdx.x == 32 * kSmallColumnWarps) {
    s.InitBarriers();
    CopyState(p, maps, item, 0, kSmallEarlyBoxes, s);
    PrefetchMap(maps.k);
    PrefetchMap(maps.q);
    PrefetchMap(maps.v);
  }
  __syncthreads();
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const bool is_short = item.NumBlocks() == 1;
  if (warp < kSmallColumnWarps) {
    if (is_short) {
      SmallColumns<1>(p, item, s).Run();
    } else {
      SmallColumns<2>(p, item, s).Run();
    }
    return;
  }
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const uint32_t bits =
      lane < item.count ? MaskWord(p.batch, item.first_row + lane, lane, 0) : 0;
  if (is_short) {
    BuildSmall<1>(p, maps, item, bits, s);
  } else {
    BuildSmall<2>(p, maps, item, bits, s);
  }
#endif
}

absl::Status LaunchSmall(const GdnCoreParams& p, const Launch& on) {
  VerifyMaps maps;
  absl::Status ready = MakeMaps(p, kTileRows, kTileRows, maps);
  ready.Update(AllowSharedMemory(SmallKernel, sizeof(SmallShared)));
  if (!ready.ok()) return ready;
  return LaunchDependent(
      "GdnVerify", SmallKernel,
      {.grid = dim3(2 * p.shape.value_heads / p.shape.key_heads,
                    p.shape.key_heads, p.batch.max_requests),
       .block = kSmallThreads,
       .shared_bytes = sizeof(SmallShared)},
      on, p, maps);
}

template <typename C>
absl::Status LaunchBatched(const GdnCoreParams& p, const Launch& on) {
  return LaunchByHeads<BatchShared<C>>(BatchedKernel<C>, C::kNodes, C::kNodes,
                                       p, on);
}

}  // namespace

bool CanVerifyBatched(const GdnCoreParams& p, int max_nodes, const Launch& on) {
  return on.is_hopper && max_nodes <= kMaxBatchNodes &&
         p.shape.value_heads * p.batch.max_requests > 64;
}

absl::Status GdnVerifyBatched(const GdnCoreParams& p, int max_nodes,
                              const Launch& on) {
  // The capacity is that of trees that are small on average.
  if (max_nodes <= kSmallNodes &&
      p.batch.rows.max <= kTileRows * p.batch.max_requests) {
    return LaunchSmall(p, on);
  }
  if (max_nodes <= 32) return LaunchBatched<BatchConfig<32, 10>>(p, on);
  return LaunchBatched<BatchConfig<64, 7>>(p, on);
}

}  // namespace bole::cuda
