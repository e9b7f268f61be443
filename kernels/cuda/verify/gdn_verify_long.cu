// Verification of trees of up to 128 nodes with many heads: one block per
// streaming multiprocessor, whose warps have roles as in gdn_verify_batched.cu.
// Copies are issued in advance, across heads. Two warpgroups build M = C (I +
// G)^-1 while one multiplies the state, 64 value columns at a time:
//
//   R^T = (V - D_P K S)^T D_beta     state in two bfloat16 parts times raw k
//   O^T = (D_P Q S)^T + R^T M^T      R and M in two bfloat16 parts
//
// over halves of the nodes, with M_11, M_21 and M_22.
#include "kernels/cuda/verify/gdn_verify_long.h"

#include "absl/status/status.h"
#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/verify/verify_batch.cuh"
#include "kernels/cuda/verify/verify_batch_launch.cuh"
#include "kernels/cuda/verify/verify_batch_loads.cuh"
#include "kernels/cuda/verify/verify_long.cuh"
#include "kernels/cuda/verify/verify_long_columns.cuh"
#include "kernels/cuda/verify/verify_long_gates.cuh"
#include "kernels/cuda/verify/verify_long_loads.cuh"
#include "kernels/cuda/verify/verify_long_matrix.cuh"

namespace bole::cuda {
namespace {

__global__ void __launch_bounds__(kBatchThreads, 1)
    LongKernel(const __grid_constant__ GdnCoreParams p,
               const __grid_constant__ VerifyMaps maps, BatchTask task) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(1024) unsigned char memory[];
  auto& s = *reinterpret_cast<LongShared*>(memory);
  // This load overlaps the initialisation of the barriers.
  const auto first = VerifyItem::First(p, task);
  BeginBlock(maps, s);
  const int group = static_cast<int>(threadIdx.x / 128);
  if (group == 0) {
    GrowRegisters<kLongColumnRegisters>();
    LongColumns<LongShared>(p, s).Run();
  } else if (group <= kLongBuilderGroups) {
    LongBuilder(s).Run();
  } else {
    ShrinkRegisters<kLongLoaderRegisters>();
    LongLoader<LongShared> loader(p, maps, task, first, s);
    const int warp = static_cast<int>(threadIdx.x / 32) % 4;
    if (warp >= 2) {
      LoadLongGates(p, task, first, s);
    } else if (threadIdx.x % 32 == 0) {
      if (warp == 0) {
        loader.LoadStatesAndValues();
      } else {
        // The first queries are requested when the first keys have arrived, so
        // that the first gates queue after those keys only.
        loader.LoadRows([&](int of) {
          if (of == 1) WaitBarrier(AddressOf(&s.rows_full[0]), 0);
        });
      }
    }
  }
#endif
}

}  // namespace

bool CanVerifyLong(const GdnCoreParams& p, int max_nodes, const Launch& on) {
  return on.is_hopper && max_nodes > kHalfNodes && max_nodes <= kLongNodes &&
         p.shape.value_heads * p.batch.max_requests > 64;
}

absl::Status GdnVerifyLong(const GdnCoreParams& p, const Launch& on) {
  return LaunchByHeads<LongShared>(LongKernel, kLongNodes, kHalfNodes, p, on);
}

}  // namespace bole::cuda
