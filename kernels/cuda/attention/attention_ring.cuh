// Shared memory of tiled attention: queries, a ring of tiles of keys and
// values that one warp fills and the others drain, and the block's result.
#ifndef BOLE_KERNELS_CUDA_ATTENTION_ATTENTION_RING_CUH_
#define BOLE_KERNELS_CUDA_ATTENTION_ATTENTION_RING_CUH_

#include <cstdint>

#include "kernels/cuda/attention/attention_tiles.h"
#include "kernels/cuda/hopper.cuh"

namespace bole::cuda {

// Columns that are swizzled together. A tile consists of blocks of so many
// columns, one after the other, which together span the head.
constexpr int kBlockColumns = 64;
constexpr int kColumnBlocks = kTileHeadDim / kBlockColumns;
constexpr int kBlockBytes = kTileTokens * kBlockColumns * 2;
constexpr int kTileBytes = kColumnBlocks * kBlockBytes;

// The partial result of a row: values weighted by 2^(kExponent (score - max)),
// and the sum of the weights. The padding puts the same column of eight rows
// into different banks.
struct alignas(16) PartialRow {
  float out[kTileHeadDim];
  float max;
  float sum;
  float padding[6];
};

// As many slots as fit into shared memory.
template <int kWarpgroups>
constexpr int kRingSlots = kWarpgroups == 1 ? 6 : 5;

constexpr int kVisibleEntries = 208;

template <int kWarpgroups>
struct TileShared {
  static constexpr int kRows = kWarpgroups * kWarpgroupRows;
  static constexpr int kSlots = kRingSlots<kWarpgroups>;

  unsigned char q[kWarpgroups][kTileBytes];
  union {
    unsigned char slots[kSlots][kTileBytes];
    PartialRow rows[kRows];  // Used once the ring is drained.
  };
  uint64_t full[kSlots];
  uint64_t empty[kSlots];
  uint64_t
      landed;  // A tile has arrived that is still to be cleaned for readers.
  uint64_t asked;   // The queries have been requested.
  uint64_t masked;  // `visible` has been written.
  // Which tokens of the tiles at the end each node sees, as far as they fit.
  uint64_t visible[kVisibleEntries];
  int is_last;  // This cluster is the item's last one to arrive.

  // Called by one thread before any other one uses the barriers.
  __device__ void InitBarriers() {
    for (int slot = 0; slot < kSlots; ++slot) {
      InitBarrier(AddressOf(&full[slot]), 1);
      InitBarrier(AddressOf(&empty[slot]), 4 * kWarpgroups);
    }
    InitBarrier(AddressOf(&landed), 1);
    InitBarrier(AddressOf(&asked), 4 * kWarpgroups);
    InitBarrier(AddressOf(&masked), 128 * kWarpgroups);
    FenceBarrierInit();
  }
};

// A position in the ring. The writer and every reader have their own ones, and
// all take the slots in the same order.
template <int kWarpgroups>
class Ring {
 public:
  static constexpr int kSlots = kRingSlots<kWarpgroups>;

  __device__ explicit Ring(TileShared<kWarpgroups>& shared)
      : slots_(AddressOf(shared.slots)),
        full_(AddressOf(shared.full)),
        empty_(AddressOf(shared.empty)) {}

  // Waits for the next tile.
  __device__ int Take() {
    const int slot = slot_;
    WaitBarrier(full_ + 8 * slot, parity_);
    Advance();
    return slot;
  }
  // Marks the slot as read by the warp, all of whose lanes have taken it.
  __device__ void Release(int slot) {
    __syncwarp();
    if (threadIdx.x % 32 == 0) Arrive(empty_ + 8 * slot);
  }

  // Waits until the next slot is free to be written.
  __device__ int Claim() {
    const int slot = slot_;
    WaitBarrier(empty_ + 8 * slot, parity_ ^ 1);
    Advance();
    return slot;
  }

  __device__ uint32_t Tile(int slot) const {
    return slots_ + slot * kTileBytes;
  }
  __device__ uint32_t FullBarrier(int slot) const { return full_ + 8 * slot; }

 private:
  __device__ void Advance() {
    if (++slot_ == kSlots) {
      slot_ = 0;
      parity_ ^= 1;
    }
  }

  uint32_t slots_;
  uint32_t full_;
  uint32_t empty_;
  int slot_ = 0;
  uint32_t parity_ = 0;
};

static_assert(sizeof(TileShared<1>) <= 227 * 1024);
static_assert(sizeof(TileShared<2>) <= 227 * 1024);

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_ATTENTION_ATTENTION_RING_CUH_
