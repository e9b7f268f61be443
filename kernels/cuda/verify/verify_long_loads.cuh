// The threads that load operands of gdn_verify_long.cu and gdn_verify_paths.cu
// to shared memory, each as far in advance as there is room.
#ifndef BOLE_KERNELS_CUDA_VERIFY_VERIFY_LONG_LOADS_CUH_
#define BOLE_KERNELS_CUDA_VERIFY_VERIFY_LONG_LOADS_CUH_

#include <cstdint>

#include "kernels/cuda/gdn/gdn_views.cuh"
#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/verify/verify_batch.cuh"
#include "kernels/cuda/verify/verify_batch_loads.cuh"
#include "kernels/cuda/verify/verify_long.cuh"

namespace bole::cuda {

// Prefetches the map's box at (column, row) into L2.
__device__ inline void PrefetchBox(const CUtensorMap& map, int column,
                                   int row) {
  asm volatile(
      "cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%0, {%1, %2}];" ::"l"(
          &map),
      "r"(column), "r"(row)
      : "memory");
}

template <typename Shared>
class LongLoader {
 public:
  __device__ LongLoader(const GdnCoreParams& p, const VerifyMaps& maps,
                        BatchTask task, const VerifyItem& first, Shared& s)
      : p_(p), maps_(maps), task_(task), first_(first), s_(s) {}

  // Called by one thread. The states need no wait: they are from before this
  // forward pass, whose first kernel (Embed) waits before it lets others start.
  __device__ void LoadStatesAndValues() {
    ForEachItem(p_, task_, first_, [&](const VerifyItem& item) {
      const int first = item.head * kLongColumns;
      const int end = first + task_.heads * kLongColumns;
      for (int column = first; column < end; column += kColumns) {
        LoadColumns(item, column);
      }
    });
  }

  // Called by one thread. Loads k and q. before_first(of) waits before the
  // first rows of k (0) and of q (1) are requested.
  template <typename F>
  __device__ void LoadRows(const F& before_first) {
    StageAt<1> at;
    bool is_first = true;
    ForEachItem(p_, task_, first_, [&](const VerifyItem& item) {
      const int column = item.key_head * kKeyDim;
      WaitForPrevious();
      if (!is_first) {
        // When the previous rows have arrived, prefetch these into L2.
        StageAt<1> before = at;
        before.parity ^= 1;
        before.WaitFull(&s_.rows_full[1]);
        for (int panel = 0; panel < 2; ++panel) {
          PrefetchBox(maps_.k, column + panel * 64, item.first_row);
          PrefetchBox(maps_.q, column + panel * 64, item.first_row);
        }
      }
      at.WaitEmpty(&s_.rows_empty);
      for (int of = 0; of < 2; ++of) {
        if (is_first) before_first(of);
        const uint32_t full = AddressOf(&s_.rows_full[of]);
        ArriveExpecting(full, sizeof(s_.rows) / 2);
        for (int panel = 0; panel < 2; ++panel) {
          CopyBox(of == 0 ? maps_.k : maps_.q, column + panel * 64,
                  item.first_row,
                  AddressOf(s_.rows.chunk[panel][of * kLongNodes]), full);
        }
      }
      is_first = false;
      at.Advance();
    });
    WaitForPrevious();  // A kernel must wait before it ends, even without work.
  }

 private:
  static constexpr int kColumns = Shared::kColumnGroups * kGroupColumns;

  // Copies a box for each group. That of the second group is column_step
  // columns and row_step rows further on.
  __device__ void Copy(const CUtensorMap& map, int column, int row,
                       int column_step, int row_step) {
#pragma unroll 1
    for (int g = 0; g < Shared::kColumnGroups; ++g) {
      ring_at_.WaitEmpty(s_.ring_empty[g]);
      const uint32_t full = AddressOf(&s_.ring_full[g][ring_at_.stage]);
      ArriveExpecting(full, kBoxBytes);
      CopyBox(map, column + g * column_step, row + g * row_step,
              AddressOf(s_.ring[g][ring_at_.stage]), full);
    }
    ring_at_.Advance();
  }

  // Loads 64 columns for each group; columns are numbered over all heads.
  __device__ void LoadColumns(const VerifyItem& item, int column) {
    const int row =
        (item.slot * p_.states.num_layers + p_.layer) * p_.shape.value_width() +
        column;
#pragma unroll 1
    for (int box = 0; box < kStateBoxes; ++box) {
      if (box == Shared::kEarlyBoxes) WaitForFirstRows();
      Copy(maps_.states, box * 64, row, 0, kGroupColumns);
    }
    WaitForFirstRows();
#pragma unroll 1
    for (int half = 0; half < 2; ++half) {
      Copy(maps_.v, column, item.first_row + half * kHalfNodes, kGroupColumns,
           0);
    }
  }

  // Waits for the first rows of k and q, which everything else waits for.
  __device__ void WaitForFirstRows() {
    if (has_waited_) return;
    has_waited_ = true;
    WaitForPrevious();
    WaitBarrier(AddressOf(&s_.rows_full[1]), 0);
  }

  const GdnCoreParams& p_;
  const VerifyMaps& maps_;
  const BatchTask task_;
  const VerifyItem& first_;
  Shared& s_;
  StageAt<Shared::kSlots> ring_at_;
  bool has_waited_ = false;
};

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_VERIFY_VERIFY_LONG_LOADS_CUH_
