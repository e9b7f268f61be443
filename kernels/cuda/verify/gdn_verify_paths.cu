// Verification of trees of 65 to 128 nodes with short paths and many heads: one
// block per streaming multiprocessor, whose warps have roles as in
// gdn_verify_batched.cu. Copies are issued in advance, across heads. One
// warpgroup builds M = C (I + G)^-1 path by path (verify_paths.cuh) while two
// multiply the state, by 64 value columns each:
//
//   R^T = (V - D_P K S)^T D_beta     state in two bfloat16 parts times raw k
//   O^T = (D_P Q S)^T + R^T M^T      R and M in two bfloat16 parts
//
// over halves of the nodes, with M_11, M_21 and M_22.
#include "kernels/cuda/verify/gdn_verify_paths.h"

#include "absl/status/status.h"
#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/verify/gdn_verify_long.h"
#include "kernels/cuda/verify/verify_batch.cuh"
#include "kernels/cuda/verify/verify_batch_gates.cuh"
#include "kernels/cuda/verify/verify_batch_launch.cuh"
#include "kernels/cuda/verify/verify_batch_loads.cuh"
#include "kernels/cuda/verify/verify_long_columns.cuh"
#include "kernels/cuda/verify/verify_long_loads.cuh"
#include "kernels/cuda/verify/verify_path_builder.cuh"
#include "kernels/cuda/verify/verify_path_shared.cuh"

namespace bole::cuda {
namespace {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// Called by one thread. Publishes the headers of the block's heads.
__device__ void PutHeaders(const GdnCoreParams& p, BatchTask task,
                           const VerifyItem& first, PathShared& s) {
  StageAt<kHeadStages> at;
  HeadCursor next(p, task, first);
  for (;;) {
    const HeadHeader header = next.Header();
    if (header.count > kLongNodes) __trap();
    at.WaitEmpty(s.columns_empty);
    s.headers[at.stage] = header;
    Arrive(AddressOf(&s.headers_full[at.stage]));
    if (header.count == 0) return;
    next.Advance();
    at.Advance();
  }
}

#endif

__global__ void __launch_bounds__(kBatchThreads, 1)
    PathKernel(const __grid_constant__ GdnCoreParams p,
               const __grid_constant__ VerifyMaps maps, BatchTask task) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(1024) unsigned char memory[];
  auto& s = *reinterpret_cast<PathShared*>(memory);
  // This load overlaps the initialisation of the barriers.
  const auto first = VerifyItem::First(p, task);
  BeginBlock(maps, s);
  const int group = static_cast<int>(threadIdx.x / 128);
  if (group < kColumnGroups) {
    GrowRegisters<kPathColumnRegisters>();
    LongColumns<PathShared>(p, s).Run();
  } else if (group == kBuilderGroup) {
    ShrinkRegisters<kPathBuilderRegisters>();
    PathBuilder(p, s).Run();
  } else {
    ShrinkRegisters<kPathLoaderRegisters>();
    if (threadIdx.x % 32 != 0) return;
    const int warp = static_cast<int>(threadIdx.x / 32) % 4;
    LongLoader<PathShared> loader(p, maps, task, first, s);
    if (warp == 0) {
      loader.LoadStatesAndValues();
    } else if (warp == 1) {
      // Rows are requested after the first gates, so that these do not queue
      // after rows.
      loader.LoadRows([&](int of) {
        if (of == 0) WaitBarrier(AddressOf(&s.log_decays_met), 0);
      });
    } else if (warp == 2) {
      PutHeaders(p, task, first, s);
    }
  }
#endif
}

}  // namespace

bool CanVerifyPaths(const GdnCoreParams& p, int max_nodes, const Launch& on) {
  return p.batch.max_path > 0 && p.batch.max_path <= kMaxPath &&
         CanVerifyLong(p, max_nodes, on);
}

absl::Status GdnVerifyPaths(const GdnCoreParams& p, const Launch& on) {
  return LaunchByHeads<PathShared>(PathKernel, kLongNodes, kHalfNodes, p, on);
}

}  // namespace bole::cuda
