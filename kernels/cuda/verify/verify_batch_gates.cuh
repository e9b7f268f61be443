// The warps that bring the gates of a block's heads to shared memory. While
// what depends on the paths of one head is computed, the next one's are on
// their way.
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
      : p_(p), task_(task), n_(static_cast<int>(blockIdx.x)) {
    FindItem();
  }

  __device__ bool IsValid() const { return n_ < task_.num_items; }
  __device__ void Advance() {
    if (++head_ < task_.heads) return;
    n_ += static_cast<int>(gridDim.x);
    FindItem();
  }
  // Of no head behind the last.
  __device__ HeadHeader Header() const {
    if (!IsValid()) return {};
    return {.first_row = item_.first_row,
            .count = item_.count,
            .head = item_.head + head_,
            .has_state = item_.has_state,
            .ends = head_ + 1 == task_.heads};
  }

 private:
  // From n_ on, the first that has nodes.
  __device__ void FindItem() {
    head_ = 0;
    for (; IsValid(); n_ += static_cast<int>(gridDim.x)) {
      item_ = VerifyItem::Of(p_, task_.heads, n_);
      if (item_.count > 0) return;
    }
  }

  const GdnCoreParams& p_;
  const BatchTask task_;
  int n_;  // Of the item.
  int head_ = 0;
  VerifyItem item_ = {};
};

// By kGateLoaders threads, each for a node: which head is next, then its gates.
template <typename Shared>
__device__ void LoadGates(const GdnCoreParams& p, BatchTask task, Shared& s) {
  constexpr int kNodes = Shared::Gates::kNodes;
  static_assert(kNodes <= kGateLoaders);
  const int i = static_cast<int>(threadIdx.x % kGateLoaders);
  StageAt<kGateStages> at;
  const auto publish = [&](const HeadHeader& header) {
    if (header.count > kNodes) __trap();
    at.WaitEmpty(s.gates_empty);
    if (i == 0) {
      s.headers[at.stage] = header;
      Arrive(AddressOf(&s.headers_full[at.stage]));
    }
  };
  HeadCursor next(p, task);
  NodeInputs<Shared::Gates::kWords> inputs;
  const auto read = [&] {
    if (next.IsValid()) inputs = inputs.Of(p, next.Header(), i);
  };
  if (next.IsValid()) WaitForPrevious();
  read();
  while (next.IsValid()) {
    publish(next.Header());
    auto& gates = s.gates[at.stage];
    if (i < kNodes) gates.Put(i, inputs);
    next.Advance();
    read();
    at.Meet(s.decays_full);
    if (i < kNodes) gates.Finish(i);
    ArriveLanes(s.gates_full + at.stage);
    at.Advance();
  }
  publish({});
}

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_VERIFY_VERIFY_BATCH_GATES_CUH_
