// The warps that bring the operands of gdn_verify_long.cu to shared memory,
// each ahead of the others as far as there is room.
#ifndef BOLE_KERNELS_CUDA_VERIFY_VERIFY_LONG_LOADS_CUH_
#define BOLE_KERNELS_CUDA_VERIFY_VERIFY_LONG_LOADS_CUH_

#include <cstdint>

#include "kernels/cuda/gdn/gdn_views.cuh"
#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/verify/tree_gates.cuh"
#include "kernels/cuda/verify/verify_batch.cuh"
#include "kernels/cuda/verify/verify_batch_loads.cuh"
#include "kernels/cuda/verify/verify_long.cuh"
#include "kernels/cuda/verify/verify_long_gates.cuh"

namespace bole::cuda {

class LongLoader {
 public:
  __device__ LongLoader(const GdnCoreParams& p, const VerifyMaps& maps,
                        BatchTask task, LongShared& s)
      : p_(p), maps_(maps), task_(task), s_(s) {}

  // One warp for the states and v, one for k and q, two for the gates.
  __device__ void Run() {
    const int warp = static_cast<int>(threadIdx.x / 32) % 4;
    if (warp >= 2) {
      LoadGates();
    } else if (threadIdx.x % 32 == 0) {
      if (warp == 0) {
        LoadStatesAndValues();
      } else {
        LoadRows();
      }
    }
  }

 private:
  // Calls f with every item of this block that has nodes.
  template <typename F>
  __device__ void ForEachItem(const F& f) const {
    for (int n = blockIdx.x; n < task_.num_items; n += gridDim.x) {
      const VerifyItem item = VerifyItem::Of(p_, task_.heads, n);
      if (item.count > 0) f(item);
    }
  }

  __device__ void Copy(const CUtensorMap& map, int column, int row) {
    ring_at_.WaitEmpty(s_.ring_empty);
    const uint32_t full = AddressOf(&s_.ring_full[ring_at_.stage]);
    ArriveExpecting(full, kBoxBytes);
    CopyBox(map, column, row, AddressOf(s_.ring[ring_at_.stage]), full);
    ring_at_.Advance();
  }

  // States are from before this forward pass, whose first kernel (Embed) waits
  // before it lets others start, so that they need no wait.
  __device__ void LoadStatesAndValues() {
    ForEachItem([&](const VerifyItem& item) {
      const int first = item.head * kLongColumns;
      const int end = first + task_.heads * kLongColumns;
      for (int column = first; column < end; column += kGroupColumns) {
        LoadColumns(item, column);
      }
    });
  }

  // 64 columns of all heads' together.
  __device__ void LoadColumns(const VerifyItem& item, int column) {
    const int row =
        (item.slot * p_.states.num_layers + p_.layer) * p_.shape.value_width() +
        column;
    for (int box = 0; item.has_state && box < kStateBoxes; ++box) {
      Copy(maps_.states, box * 64, row);
    }
    WaitForPrevious();
    // The first rows of k and q, which all else waits for, before more.
    if (!has_waited_) WaitBarrier(AddressOf(&s_.rows_full), 0);
    has_waited_ = true;
    for (int half = 0; half < 2; ++half) {
      Copy(maps_.v, column, item.first_row + half * kHalfNodes);
    }
  }

  __device__ void LoadRows() {
    StageAt<1> at;
    const uint32_t full = AddressOf(&s_.rows_full);
    ForEachItem([&](const VerifyItem& item) {
      const int column = KeyHead(p_.shape, item.head) * kKeyDim;
      WaitForPrevious();
      at.WaitEmpty(&s_.rows_empty);
      ArriveExpecting(full, sizeof(s_.rows));
      for (int panel = 0; panel < 2; ++panel) {
        CopyBox(maps_.k, column + panel * 64, item.first_row,
                AddressOf(s_.rows.chunk[panel][0]), full);
        CopyBox(maps_.q, column + panel * 64, item.first_row,
                AddressOf(s_.rows.chunk[panel][kLongNodes]), full);
      }
      at.Advance();
    });
    WaitForPrevious();  // A kernel has waited when it ends, empty or not.
  }

  // By kGateLoaders threads: which head is next, then its gates.
  __device__ void LoadGates() {
    const int thread = static_cast<int>(threadIdx.x % kGateLoaders);
    StageAt<kGateStages> at;
    const auto publish = [&](const HeadHeader& header) {
      at.WaitEmpty(s_.gates_empty);
      if (thread == 0) {
        s_.headers[at.stage] = header;
        Arrive(AddressOf(&s_.headers_full[at.stage]));
      }
    };
    ForEachItem([&](const VerifyItem& item) {
      if (item.count > kLongNodes) __trap();
      for (int h = 0; h < task_.heads; ++h) {
        publish({.first_row = item.first_row,
                 .count = item.count,
                 .head = item.head + h,
                 .has_state = item.has_state,
                 .ends = h + 1 == task_.heads});
        WaitForPrevious();
        const HeadTree<BFloat16> tree(p_, TreeRows{item.first_row, item.count},
                                      item.head + h, 1);
        LongGates& gates = s_.gates[at.stage];
        gates.Load<kGateLoaders>(p_, tree, thread);
        at.Meet(s_.decays_full);
        for (int i = thread; i < kLongNodes; i += kGateLoaders) gates.Finish(i);
        ArriveLanes(s_.gates_full + at.stage);
        at.Advance();
      }
    });
    publish({});
  }

  const GdnCoreParams& p_;
  const VerifyMaps& maps_;
  const BatchTask task_;
  LongShared& s_;
  StageAt<kLongSlots> ring_at_;
  bool has_waited_ = false;
};

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_VERIFY_VERIFY_LONG_LOADS_CUH_
