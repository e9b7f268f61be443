// The scales and masks of a value head's products with up to 128 nodes, and the
// warps that load them to shared memory (gdn_verify_long.cu).
#ifndef BOLE_KERNELS_CUDA_VERIFY_VERIFY_LONG_GATES_CUH_
#define BOLE_KERNELS_CUDA_VERIFY_VERIFY_LONG_GATES_CUH_

#include <cstdint>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/verify/verify_batch_gates.cuh"
#include "kernels/cuda/verify/verify_node_gates.cuh"
#include "kernels/cuda/warp_barriers.cuh"
#include "kernels/gdn.h"

namespace bole::cuda {

constexpr int kHeadStages = kGateStages + 1;
using LongGates = MatrixGates<128>;

// Called by as many warps as there are stages. Each warp fills a stage of its
// own and handles every head of the block that falls to it. The columns are up
// to a head behind the matrices, so what they read has one slot more. The
// scales of other heads are requested only when the first head's gates have
// arrived.
template <typename Shared>
__device__ void LoadLongGates(const GdnCoreParams& p, BatchTask task,
                              const VerifyItem& first, Shared& s) {
  const int stage = static_cast<int>(threadIdx.x / 32) % kGateStages;
  StageAt<1> at;
  StageAt<kHeadStages> head_at;
  bool is_first = true;
  HeadCursor next(p, task, first);
  for (int n = 0;; n = (n + 1) % kGateStages) {
    if (n == stage) {
      const HeadHeader header = next.Header();
      if (header.count > LongGates::kNodes) __trap();
      at.WaitEmpty(&s.gates_empty[stage]);
      head_at.WaitEmpty(s.columns_empty);
      if (threadIdx.x % 32 == 0) {
        s.headers[head_at.stage] = header;
        Arrive(AddressOf(&s.headers_full[head_at.stage]));
      }
      if (header.count == 0) return;
      auto& gates = s.gates[stage];
      LongGates::Ancestors ancestors;
      LongGates::Read(p, header, ancestors);
      const uint32_t parents = gates.PutAncestors(ancestors);
      WaitForPrevious();
      if (stage != 0) WaitBarrier(AddressOf(&s.first_gates), 0);
      LongGates::Scales scales;
      LongGates::Read(p, header, scales);
      gates.Fill(parents, scales, header.count, s.columns[head_at.stage]);
      ArriveLanes(&s.gates_full[stage]);
      ArriveLanes(&s.columns_full[head_at.stage]);
      if (is_first && stage == 0) ArriveLanes(&s.first_gates);
      is_first = false;
      at.Advance();
    }
    if (!next.IsValid()) return;
    next.Advance();
    head_at.Advance();
  }
}

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_VERIFY_VERIFY_LONG_GATES_CUH_
