// Loads of a small tree's operands to a block's shared memory.
#ifndef BOLE_KERNELS_CUDA_VERIFY_VERIFY_SMALL_LOADS_CUH_
#define BOLE_KERNELS_CUDA_VERIFY_VERIFY_SMALL_LOADS_CUH_

#include <cstdint>

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/gdn/gdn_views.cuh"
#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/verify/tree_gates.cuh"
#include "kernels/cuda/verify/verify_batch.cuh"
#include "kernels/cuda/verify/verify_path_sums.cuh"
#include "kernels/cuda/verify/verify_small.cuh"

namespace bole::cuda {

// Called by one thread. Copies boxes of the state. Allowed before
// WaitForPrevious().
__device__ inline void CopyState(const GdnCoreParams& p, const VerifyMaps& maps,
                                 const HalfHead& item, int first, int end,
                                 SmallShared& s) {
  if (!item.has_state) return;
  const int row =
      ((item.slot * p.states.num_layers + p.layer) * p.shape.value_heads +
       item.head) *
          p.shape.value_dim +
      item.column;
  for (int box = first; box < end; ++box) {
    const uint32_t full = AddressOf(&s.state_full[box]);
    ArriveExpecting(full, kBoxBytes);
    CopyBox(maps.states, box * 64, row, AddressOf(s.state[box]), full);
  }
}

// Called by one thread. Copies the rows of k, q and v, in boxes of 16 nodes.
__device__ inline void CopyRows(const GdnCoreParams& p, const VerifyMaps& maps,
                                const HalfHead& item, SmallShared& s) {
  constexpr int kRowsBytes = kTileRows * 128;
  const int blocks = item.NumBlocks();
  const int column = item.key_head * kKeyDim;
  const uint32_t full = AddressOf(&s.rows_full);
  ArriveExpecting(full, 4 * blocks * kRowsBytes);
#pragma unroll 1
  for (int n = 0; n < 2 * blocks; ++n) {
    const int panel = n % 2;
    const int row = n / 2 * kTileRows;
    auto& chunk = s.rows.chunk[panel];
    CopyBox(maps.k, column + panel * 64, item.first_row + row,
            AddressOf(chunk[row]), full);
    CopyBox(maps.q, column + panel * 64, item.first_row + row,
            AddressOf(chunk[blocks * kTileRows + row]), full);
  }
  const uint32_t values_full = AddressOf(&s.values_full);
  ArriveExpecting(values_full, blocks * kRowsBytes);
#pragma unroll 1
  for (int n = 0; n < blocks; ++n) {
    CopyBox(maps.v, item.head * p.shape.value_dim + item.column,
            item.first_row + n * kTileRows, AddressOf(s.values[n * kTileRows]),
            values_full);
  }
}

// Called by a warp. Loads the gates of each lane's node. bits: the node's
// ancestors, itself included.
__device__ inline void LoadSmallGates(const GdnCoreParams& p,
                                      const HalfHead& item, uint32_t bits,
                                      SmallGates& gates) {
  const int node = static_cast<int>(threadIdx.x) % 32;
  float k_scale = 0;
  float q_scale = 0;
  float beta = 0;
  float log_decay = 0;
  if (node < item.count) {
    const FactorRows<BFloat16> factors(p.shape, p.factors, p.layer);
    const int row = item.first_row + node;
    k_scale = factors.k_scale(row, item.key_head);
    q_scale = p.q_scale[static_cast<int64_t>(row) * p.shape.key_heads +
                        item.key_head];
    beta = factors.beta(row, item.head);
    log_decay = factors.log_decay(row, item.head);
  }
  const uint32_t ancestors[1][1] = {{bits}};
  PairSum sums[1] = {{log_decay, 0}};
  PathSums<1>::Add(ancestors, sums);
  const PairSum gamma = sums[0].InPowersOfTwo();
  const float decay = exp2f(gamma.high);
  gates.gamma[node] = {gamma.high, gamma.low};
  gates.k_scale[node] = k_scale;
  gates.q_scale[node] = q_scale;
  gates.beta[node] = beta;
  gates.correction_scale[node] = beta * decay * k_scale;
  gates.readout_scale[node] = decay * q_scale;
}

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_VERIFY_VERIFY_SMALL_LOADS_CUH_
