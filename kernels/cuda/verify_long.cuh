// Shared memory and roles of a block that verifies trees of up to 128 nodes,
// head after head (gdn_verify_long.cu).
#ifndef BOLE_KERNELS_CUDA_VERIFY_LONG_CUH_
#define BOLE_KERNELS_CUDA_VERIFY_LONG_CUH_

#include <cstdint>

#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/tree_matrices.cuh"
#include "kernels/cuda/verify_batch.cuh"
#include "kernels/cuda/verify_long_gates.cuh"

namespace bole::cuda {

constexpr int kLongNodes = LongGates::kNodes;
constexpr int kLongColumns = 128;  // dv
// Nodes are parents before children, so the matrices over them are lower
// triangular in blocks of 64: 11, 21 and 22.
constexpr int kHalfNodes = 64;
constexpr int kHalfTiles = kHalfNodes / kTileRows;
constexpr int kHalfTriangle = kHalfTiles * (kHalfTiles + 1) / 2;

// Warpgroup 0 has the value columns, 64 at a time; 1 and 2 build the matrices
// over the nodes, a half of the rows each; the warps of 3 load. Their registers
// add up to 512.
constexpr int kLongBuilderGroups = 2;
constexpr int kLongColumnRegisters = 208;
constexpr int kLongLoaderRegisters = 48;
// Named barriers; the last is a builder group's, with its number added.
enum : int {
  kLongStoreBarrier = 1,
  kLongGateBarrier = 2,
  kLongBuildBarrier = 3
};

constexpr int kLongSlots = 8;  // Of boxes of the state and of v.

// [kRows, 64] in two bfloat16 parts: rows as WgmmaOperand() wants them.
template <int kRows>
struct SplitRows {
  uint4 part[2][kRows][8];

  // Of columns 16 tile + 8 half + t % 4 * 2 + {0, 1} of `row`, from the start
  // of a part. t: thread.
  __device__ static int Offset(int row, int tile, int half) {
    return row * 128 + ((2 * tile + half) ^ row % 8) * 16 +
           static_cast<int>(threadIdx.x % 4) * 4;
  }
  __device__ void Put(int row, int tile, int half, uint32_t high,
                      uint32_t low) {
    const int offset = Offset(row, tile, half);
    *reinterpret_cast<uint32_t*>(reinterpret_cast<unsigned char*>(part[0]) +
                                 offset) = high;
    *reinterpret_cast<uint32_t*>(reinterpret_cast<unsigned char*>(part[1]) +
                                 offset) = low;
  }
};

struct LongShared {
  NodeRows<2 * kLongNodes> rows;  // Of k, then of q.
  uint4 ring[kLongSlots][kBoxBytes / sizeof(uint4)];
  SplitRows<3 * kHalfNodes> matrix;    // M_11, M_21, M_22.
  SplitRows<kHalfNodes> coupling;      // -G_21, transposed.
  SplitBlock solve[2][kHalfTriangle];  // With G_11 and with G_22.
  LongGates gates[kGateStages];
  HeadHeader headers[kGateStages];
  uint64_t rows_full;
  uint64_t rows_empty;
  uint64_t ring_full[kLongSlots];
  uint64_t ring_empty[kLongSlots];
  uint64_t headers_full[kGateStages];
  uint64_t gates_full[kGateStages];
  uint64_t gates_empty[kGateStages];  // And their headers.
  uint64_t matrix_full;
  uint64_t matrix_empty;
  uint64_t coupling_full;  // And solve[0].
  uint64_t coupling_empty;

  // By one thread. Readers arrive warp by warp.
  __device__ void InitBarriers() {
    constexpr int kBuilderWarps = 4 * kLongBuilderGroups;
    InitBarrier(AddressOf(&rows_full), 1);
    InitBarrier(AddressOf(&rows_empty), 4 + kBuilderWarps);
    for (int i = 0; i < kLongSlots; ++i) {
      InitBarrier(AddressOf(&ring_full[i]), 1);
      InitBarrier(AddressOf(&ring_empty[i]), 4);
    }
    for (int i = 0; i < kGateStages; ++i) {
      InitBarrier(AddressOf(&headers_full[i]), 1);
      InitBarrier(AddressOf(&gates_full[i]), kGateLoaders);
      InitBarrier(AddressOf(&gates_empty[i]), 4 + kBuilderWarps);
    }
    InitBarrier(AddressOf(&matrix_full), kBuilderWarps);
    InitBarrier(AddressOf(&matrix_empty), 4);
    InitBarrier(AddressOf(&coupling_full), 4);
    InitBarrier(AddressOf(&coupling_empty), 4);
    FenceBarrierInit();
  }
};

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_VERIFY_LONG_CUH_
