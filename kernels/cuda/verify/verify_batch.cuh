// Shared memory and roles of a block that verifies heads one after another
// (gdn_verify_batched.cu).
#ifndef BOLE_KERNELS_CUDA_VERIFY_VERIFY_BATCH_CUH_
#define BOLE_KERNELS_CUDA_VERIFY_VERIFY_BATCH_CUH_

#include <cuda.h>

#include <cstdint>

#include "kernels/cuda/divisor.h"
#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/verify/tree_matrices.cuh"
#include "kernels/cuda/verify/verify_node_gates.cuh"
#include "kernels/cuda/verify/verify_state_box.cuh"
#include "kernels/cuda/warp_barriers.cuh"
#include "kernels/gdn.h"

namespace bole::cuda {

// Warpgroups 0 and 1 have 64 value columns each, 2 builds the matrices over the
// nodes, and the warps of 3 load.
constexpr int kColumnGroups = 2;
constexpr int kGroupColumns = 64;
constexpr int kBuilderGroup = 2;
constexpr int kBatchThreads = 512;
constexpr int kBuilders = 128;

constexpr int kStoreBarrier = 1;  // Plus the number of the group.

constexpr int kRowStages = 2;
constexpr int kSolveStages = 2;
constexpr int kGateStages = 2;  // Each with a warp that fills it.

// The configuration for trees of up to kMaxNodes nodes, 32 or 64. The registers
// of the four warpgroups add up to 512.
template <int kMaxNodes, int kRingSlots>
struct BatchConfig {
  static constexpr int kNodes = kMaxNodes;
  static constexpr int kBlocks = kNodes / kTileRows;
  static constexpr int kTriangle = kBlocks * (kBlocks + 1) / 2;
  static constexpr int kSlots = kRingSlots;  // For each warpgroup.
};
constexpr int kMaxBatchNodes = 64;
constexpr int kColumnRegisters = 144;
constexpr int kBuilderRegisters = 152;
constexpr int kLoaderRegisters = 72;

// The tensor maps from which boxes are copied; rows are of 16-bit elements.
struct VerifyMaps {
  CUtensorMap states;  // [slots * L * Hv * dv, 2 dk]: halves of floats.
  CUtensorMap k;       // [rows, Hk dk]
  CUtensorMap q;       // [rows, Hk dk]
  CUtensorMap v;       // [rows, Hv dv]
};

// M [kNodes, kNodes], lower block triangular, in two bfloat16 parts. Their rows
// of 64 columns have the layout that WgmmaOperand() expects.
template <int kNodes>
struct SplitMatrix {
  uint4 part[2][kNodes][8];

  // The byte offset of the 16-byte unit of row i that holds columns 8 unit .. 8
  // unit + 7.
  __device__ static int Offset(int i, int unit) {
    return i * 128 + (unit ^ i % 8) * 16;
  }
};

template <typename C>
struct BatchShared {
  using Gates = NodeGates<C::kNodes>;

  NodeRows<2 * C::kNodes> rows[kRowStages];  // k, then q.
  uint4 ring[kColumnGroups][C::kSlots][kBoxBytes / sizeof(uint4)];
  SplitMatrix<C::kNodes> matrix;
  SplitBlock solve[kSolveStages][C::kTriangle];
  Gates gates[kGateStages];
  HeadHeader headers[kGateStages];
  uint64_t rows_full[kRowStages];
  uint64_t rows_empty[kRowStages];
  uint64_t ring_full[kColumnGroups][C::kSlots];
  uint64_t ring_empty[kColumnGroups][C::kSlots];
  uint64_t headers_full[kGateStages];
  uint64_t gates_full[kGateStages];
  uint64_t gates_empty[kGateStages];  // For their headers too.
  uint64_t solve_full;
  uint64_t matrix_full;
  uint64_t matrix_empty;

  // Called by one thread.
  __device__ void InitBarriers() {
    constexpr int kGroupWarps = 4;
    constexpr int kColumnWarps = kGroupWarps * kColumnGroups;
    constexpr int kReaders = kColumnWarps + kGroupWarps;
    for (int i = 0; i < kRowStages; ++i) {
      InitBarrier(AddressOf(&rows_full[i]), 1);
      InitBarrier(AddressOf(&rows_empty[i]), kReaders);
    }
    for (int g = 0; g < kColumnGroups; ++g) {
      for (int i = 0; i < C::kSlots; ++i) {
        InitBarrier(AddressOf(&ring_full[g][i]), 1);
        InitBarrier(AddressOf(&ring_empty[g][i]), kGroupWarps);
      }
    }
    for (int i = 0; i < kGateStages; ++i) {
      InitBarrier(AddressOf(&headers_full[i]), 1);
      InitLaneBarrier(&gates_full[i], 1);
      InitLaneBarrier(&gates_empty[i], kReaders);
    }
    InitLaneBarrier(&solve_full, kGroupWarps);
    InitBarrier(AddressOf(&matrix_full), kGroupWarps);
    InitBarrier(AddressOf(&matrix_empty), kColumnWarps);
    FenceBarrierInit();
  }
};

struct BatchTask {
  int num_items;
  int heads;              // Heads of an item.
  Divisor request_items;  // Items of a request.
  Divisor key_items;      // Items of a key head.
};

// Some value heads of a key head of a request. Block b processes item b and
// every gridDim.x-th item after it.
struct VerifyItem {
  int head;  // The first.
  int key_head;
  int first_row;
  int count;  // T
  int slot;
  bool has_state;

  // May be called before WaitForPrevious(): the topology is from before this
  // forward pass.
  __device__ static VerifyItem Of(const GdnCoreParams& p, const BatchTask& task,
                                  int n) {
    const int request = task.request_items.Quotient(n);
    const int of_request = task.request_items.Remainder(n);
    const int first = __ldcg(p.batch.first_row + request);
    const int end = __ldcg(p.batch.first_row + request + 1);
    return {.head = of_request * task.heads,
            .key_head = task.key_items.Quotient(of_request),
            .first_row = first,
            .count = end - first,
            .slot = __ldcg(p.batch.slot + request),
            .has_state = __ldcg(p.batch.committed + request) > 0};
  }
  // The first item of this block.
  __device__ static VerifyItem First(const GdnCoreParams& p,
                                     const BatchTask& task) {
    return Of(p, task, static_cast<int>(blockIdx.x));
  }
};

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_VERIFY_VERIFY_BATCH_CUH_
