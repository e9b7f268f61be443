// The warps that bring a block's operands to shared memory, each ahead of the
// others as far as there is room.
#ifndef BOLE_KERNELS_CUDA_VERIFY_VERIFY_BATCH_LOADS_CUH_
#define BOLE_KERNELS_CUDA_VERIFY_VERIFY_BATCH_LOADS_CUH_

#include <cstdint>

#include "kernels/cuda/gdn/gdn_views.cuh"
#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/verify/verify_batch.cuh"

namespace bole::cuda {

// By all threads, first: barriers and maps are ready, and the next kernel may
// start.
template <typename Shared>
__device__ __forceinline__ void BeginBlock(const VerifyMaps& maps, Shared& s) {
  if (threadIdx.x == 0) s.InitBarriers();
  if (threadIdx.x == 32) {
    PrefetchMap(maps.states);
    PrefetchMap(maps.k);
    PrefetchMap(maps.q);
    PrefetchMap(maps.v);
  }
  __syncthreads();
  StartNext();
}

// By one thread: the states and v. States are from before this forward pass,
// whose first kernel (Embed) waits before it lets others start, so that they
// need no wait.
template <typename C>
__device__ void LoadStatesAndValues(const GdnCoreParams& p,
                                    const VerifyMaps& maps, BatchTask task,
                                    BatchShared<C>& s) {
  // Boxes before the wait: enough for the memory to be busy, and no more for
  // the rows of k and q to wait behind. Nor do the first gates wait behind
  // others.
  constexpr int kEarlyBoxes = 3;
  constexpr int kValueBytes = C::kNodes * kGroupColumns * 2;
  StageAt<C::kSlots> at;
  const auto wait_first = [&] {
    WaitForPrevious();
    WaitBarrier(AddressOf(&s.decays_full[0]), 0);
  };
  bool is_first = true;
  const auto copy = [&](const CUtensorMap& map, int bytes, int column, int row,
                        int row_step) {
    for (int g = 0; g < kColumnGroups; ++g) {
      at.WaitEmpty(s.ring_empty[g]);
      const uint32_t full = AddressOf(&s.ring_full[g][at.stage]);
      ArriveExpecting(full, bytes);
      CopyBox(map, column + g * (row_step > 0 ? 0 : kGroupColumns),
              row + g * row_step, AddressOf(s.ring[g][at.stage]), full);
    }
    at.Advance();
  };
  for (int n = blockIdx.x; n < task.num_items; n += gridDim.x) {
    const VerifyItem item = VerifyItem::Of(p, task.heads, n);
    if (item.count <= 0) continue;
    for (int h = item.head; h < item.head + task.heads; ++h) {
      if (item.has_state) {
        const int row =
            ((item.slot * p.states.num_layers + p.layer) * p.shape.value_heads +
             h) *
            p.shape.value_dim;
        for (int box = 0; box < kStateBoxes; ++box) {
          if (is_first && box == kEarlyBoxes) wait_first();
          copy(maps.states, kBoxBytes, box * 64, row, kGroupColumns);
        }
      }
      if (is_first && !item.has_state) wait_first();
      is_first = false;
      copy(maps.v, kValueBytes, h * p.shape.value_dim, item.first_row, 0);
    }
  }
}

// By one thread: rows of k and q.
template <typename C>
__device__ void LoadRows(const GdnCoreParams& p, const VerifyMaps& maps,
                         BatchTask task, BatchShared<C>& s) {
  StageAt<kRowStages> at;
  for (int n = blockIdx.x; n < task.num_items; n += gridDim.x) {
    const VerifyItem item = VerifyItem::Of(p, task.heads, n);
    if (item.count <= 0) continue;
    const int column = KeyHead(p.shape, item.head) * kKeyDim;
    WaitForPrevious();
    at.WaitEmpty(s.rows_empty);
    auto& rows = s.rows[at.stage];
    const uint32_t full = AddressOf(&s.rows_full[at.stage]);
    ArriveExpecting(full, sizeof(rows));
    for (int panel = 0; panel < 2; ++panel) {
      CopyBox(maps.k, column + panel * 64, item.first_row,
              AddressOf(rows.chunk[panel][0]), full);
      CopyBox(maps.q, column + panel * 64, item.first_row,
              AddressOf(rows.chunk[panel][C::kNodes]), full);
    }
    at.Advance();
  }
  WaitForPrevious();  // A kernel has waited when it ends, empty or not.
}

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_VERIFY_VERIFY_BATCH_LOADS_CUH_
