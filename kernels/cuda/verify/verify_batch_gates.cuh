// The warps that load the gates of a block's heads to shared memory.
#ifndef BOLE_KERNELS_CUDA_VERIFY_VERIFY_BATCH_GATES_CUH_
#define BOLE_KERNELS_CUDA_VERIFY_VERIFY_BATCH_GATES_CUH_

#include <cstdint>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/verify/verify_batch.cuh"
#include "kernels/cuda/verify/verify_node_gates.cuh"
#include "kernels/cuda/warp_barriers.cuh"

namespace bole::cuda {

// The heads of a block, one after another.
class HeadCursor {
 public:
  __device__ HeadCursor(const GdnCoreParams& p, BatchTask task)
      : HeadCursor(p, task, VerifyItem::First(p, task)) {}
  __device__ HeadCursor(const GdnCoreParams& p, BatchTask task,
                        const VerifyItem& first)
      : p_(p), task_(task), n_(static_cast<int>(blockIdx.x)), item_(first) {
    if (item_.count <= 0) FindItem();
  }

  __device__ bool IsValid() const { return n_ < task_.num_items; }
  __device__ void Advance() {
    if (++head_ < task_.heads) return;
    FindItem();
  }
  // The header of the current head; after the last one, an empty header.
  __device__ HeadHeader Header() const {
    if (!IsValid()) return {};
    return {.first_row = item_.first_row,
            .count = item_.count,
            .head = item_.head + head_,
            .key_head = item_.key_head,
            .has_state = item_.has_state,
            .ends = head_ + 1 == task_.heads};
  }

 private:
  // Advances to the first item after n_ that has nodes.
  __device__ void FindItem() {
    head_ = 0;
    for (;;) {
      n_ += static_cast<int>(gridDim.x);
      if (!IsValid()) return;
      item_ = VerifyItem::Of(p_, task_, n_);
      if (item_.count > 0) return;
    }
  }

  const GdnCoreParams& p_;
  const BatchTask task_;
  int n_;  // Number of the item.
  int head_ = 0;
  VerifyItem item_;
};

// Called by as many warps as there are stages. Each warp fills a stage of its
// own and handles every head of the block that falls to it. A head is announced
// when the loads of its gates have been issued.
template <typename Shared>
__device__ void LoadGates(const GdnCoreParams& p, BatchTask task,
                          const VerifyItem& first, Shared& s) {
  using Gates = typename Shared::Gates;
  const int stage = static_cast<int>(threadIdx.x / 32) % kGateStages;
  StageAt<1> at;
  HeadCursor next(p, task, first);
  for (int n = 0;; n = (n + 1) % kGateStages) {
    if (n == stage) {
      const HeadHeader header = next.Header();
      if (header.count > Gates::kNodes) __trap();
      typename Gates::Ancestors ancestors;
      typename Gates::Scales scales;
      if (header.count > 0) {
        Gates::Read(p, header, ancestors);
        WaitForPrevious();
        Gates::Read(p, header, scales);
      }
      at.WaitEmpty(&s.gates_empty[stage]);
      if (threadIdx.x % 32 == 0) {
        s.headers[stage] = header;
        Arrive(AddressOf(&s.headers_full[stage]));
      }
      if (header.count == 0) return;
      s.gates[stage].Fill(ancestors, scales, header.count);
      ArriveLanes(&s.gates_full[stage]);
      at.Advance();
    }
    if (!next.IsValid()) return;
    next.Advance();
  }
}

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_VERIFY_VERIFY_BATCH_GATES_CUH_
