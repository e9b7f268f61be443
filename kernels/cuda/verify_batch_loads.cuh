// The warps that bring a block's operands to shared memory, each ahead of the
// others as far as there is room.
#ifndef BOLE_KERNELS_CUDA_VERIFY_BATCH_LOADS_CUH_
#define BOLE_KERNELS_CUDA_VERIFY_BATCH_LOADS_CUH_

#include <cstdint>

#include "kernels/cuda/gdn_views.cuh"
#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/tree_gates.cuh"
#include "kernels/cuda/verify_batch.cuh"

namespace bole::cuda {

struct BatchTask {
  int num_items;
  int heads;  // Of an item.
};

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
  // the rows of k and q to wait behind.
  constexpr int kEarlyBoxes = 3;
  constexpr int kValueBytes = C::kNodes * kGroupColumns * 2;
  StageAt<C::kSlots> at;
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
          if (box == kEarlyBoxes) WaitForPrevious();
          copy(maps.states, kBoxBytes, box * 64, row, kGroupColumns);
        }
      }
      WaitForPrevious();
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

// Sums up the path of node i, of which the decays are in `log_decays`.
template <typename C>
__device__ double PathSum(const TreeGates<C::kNodes, 1>& gates,
                          const double* log_decays, int i) {
  double sums[4] = {};
  for (int w = 0; w < C::kNodes / 32; ++w) {
    const uint32_t bits = gates.ancestors[i][w];
#pragma unroll
    for (int n = 0; n < 32; n += 2) {
      const double2 x =
          *reinterpret_cast<const double2*>(log_decays + 32 * w + n);
      sums[n % 4] += (bits >> n & 1) != 0 ? x.x : 0;
      sums[n % 4 + 1] += (bits >> (n + 1) & 1) != 0 ? x.y : 0;
    }
  }
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// By kGateLoaders threads: which head is next, then its gates.
template <typename C>
__device__ void LoadGates(const GdnCoreParams& p, BatchTask task,
                          BatchShared<C>& s) {
  const int thread = static_cast<int>(threadIdx.x % kGateLoaders);
  StageAt<kGateStages> at;
  const auto publish = [&](const HeadHeader& header) {
    at.WaitEmpty(s.gates_empty);
    if (thread == 0) {
      s.headers[at.stage] = header;
      Arrive(AddressOf(&s.headers_full[at.stage]));
    }
  };
  for (int n = blockIdx.x; n < task.num_items; n += gridDim.x) {
    const VerifyItem item = VerifyItem::Of(p, task.heads, n);
    if (item.count <= 0) continue;
    if (item.count > C::kNodes) __trap();
    for (int h = 0; h < task.heads; ++h) {
      publish({.first_row = item.first_row,
               .count = item.count,
               .head = item.head + h,
               .has_state = item.has_state,
               .ends = h + 1 == task.heads});
      WaitForPrevious();
      const HeadTree<BFloat16> tree(p, TreeRows{item.first_row, item.count},
                                    item.head + h, 1);
      auto& gates = s.gates[at.stage];
      double* const log_decays = s.log_decays[at.stage];
      gates.Load(p, tree, thread);
      if (thread < C::kNodes) {
        log_decays[thread] = gates.heads[0].log_decay[thread];
      }
      SyncThreads(kGateBarrier, kGateLoaders);
      if (thread < C::kNodes) {
        auto& head = gates.heads[0];
        const double sum = PathSum<C>(gates, log_decays, thread);
        gates.SetScales(head, thread, gates.SetGamma(head, thread, sum));
        const float k_scale = gates.k_scale[thread];
        s.nodes[at.stage][thread] = {.gamma = head.gamma[thread],
                                     .k_scale = k_scale,
                                     .key_factor = head.beta[thread] * k_scale};
      }
      Arrive(AddressOf(&s.gates_full[at.stage]));
      at.Advance();
    }
  }
  publish({});
}

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_VERIFY_BATCH_LOADS_CUH_
