// The warps that load a block's operands to shared memory, each as far in
// advance as there is room. Their loops are not unrolled: a block's code is
// larger than the instruction cache, and instruction fetches for these warps
// delay the others.
#ifndef BOLE_KERNELS_CUDA_VERIFY_VERIFY_BATCH_LOADS_CUH_
#define BOLE_KERNELS_CUDA_VERIFY_VERIFY_BATCH_LOADS_CUH_

#include <cstdint>

#include "kernels/cuda/gdn/gdn_views.cuh"
#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/verify/verify_batch.cuh"

namespace bole::cuda {

// Called first, by all threads. Initialises the barriers, prefetches the maps,
// and lets the next kernel start.
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

// Calls f with every item of the block that has nodes.
template <typename F>
__device__ void ForEachItem(const GdnCoreParams& p, BatchTask task,
                            VerifyItem item, const F& f) {
  for (int n = static_cast<int>(blockIdx.x);;) {
    if (item.count > 0) f(item);
    n += static_cast<int>(gridDim.x);
    if (n >= task.num_items) return;
    item = VerifyItem::Of(p, task, n);
  }
}

// Called by one thread. Loads the states and v. The states need no wait: they
// are from before this forward pass, whose first kernel (Embed) waits before it
// lets others start.
template <typename C>
__device__ void LoadStatesAndValues(const GdnCoreParams& p,
                                    const VerifyMaps& maps, BatchTask task,
                                    const VerifyItem& first,
                                    BatchShared<C>& s) {
  // Boxes of each half that are requested before the first rows arrive: enough
  // to keep the memory busy, and no more, because rows and gates queue after
  // them.
  constexpr int kEarlyBoxes = 2;
  constexpr int kValueBytes = C::kNodes * kGroupColumns * 2;
  StageAt<C::kSlots> at;
  bool is_first = true;
  const auto copy = [&](const CUtensorMap& map, int bytes, int column, int row,
                        int row_step) {
#pragma unroll 1
    for (int g = 0; g < kColumnGroups; ++g) {
      at.WaitEmpty(s.ring_empty[g]);
      const uint32_t full = AddressOf(&s.ring_full[g][at.stage]);
      ArriveExpecting(full, bytes);
      CopyBox(map, column + g * (row_step > 0 ? 0 : kGroupColumns),
              row + g * row_step, AddressOf(s.ring[g][at.stage]), full);
    }
    at.Advance();
  };
  ForEachItem(p, task, first, [&](const VerifyItem& item) {
    for (int h = item.head; h < item.head + task.heads; ++h) {
      if (item.has_state) {
        const int row =
            ((item.slot * p.states.num_layers + p.layer) * p.shape.value_heads +
             h) *
            p.shape.value_dim;
#pragma unroll 1
        for (int box = 0; box < kStateBoxes; ++box) {
          if (is_first && box >= kEarlyBoxes) {
#pragma unroll 1
            for (int g = 0; g < kColumnGroups; ++g) {
              WaitBarrier(AddressOf(&s.ring_full[g][box - kEarlyBoxes]), 0);
            }
          }
          copy(maps.states, kBoxBytes, box * 64, row, kGroupColumns);
        }
      }
      if (is_first) {
        WaitForPrevious();
        WaitBarrier(AddressOf(&s.rows_full[0]), 0);
        is_first = false;
      }
      copy(maps.v, kValueBytes, h * p.shape.value_dim, item.first_row, 0);
    }
  });
}

// Called by one thread. Loads the rows of k and q.
template <typename C>
__device__ void LoadRows(const GdnCoreParams& p, const VerifyMaps& maps,
                         BatchTask task, const VerifyItem& first,
                         BatchShared<C>& s) {
  StageAt<kRowStages> at;
  bool is_first = true;
  ForEachItem(p, task, first, [&](const VerifyItem& item) {
    const int column = item.key_head * kKeyDim;
    WaitForPrevious();
    // Wait until the first gates have been requested.
    if (is_first) WaitBarrier(AddressOf(&s.headers_full[0]), 0);
    is_first = false;
    at.WaitEmpty(s.rows_empty);
    auto& rows = s.rows[at.stage];
    const uint32_t full = AddressOf(&s.rows_full[at.stage]);
    ArriveExpecting(full, sizeof(rows));
#pragma unroll 1
    for (int panel = 0; panel < 2; ++panel) {
      CopyBox(maps.k, column + panel * 64, item.first_row,
              AddressOf(rows.chunk[panel][0]), full);
      CopyBox(maps.q, column + panel * 64, item.first_row,
              AddressOf(rows.chunk[panel][C::kNodes]), full);
    }
    at.Advance();
  });
  WaitForPrevious();  // A kernel must wait before it ends, even without work.
}

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_VERIFY_VERIFY_BATCH_LOADS_CUH_
