// The two rings through which a product of many rows streams its operands, and
// the threads that fill them (wide_product.cu).
#ifndef BOLE_KERNELS_CUDA_PRODUCTS_WIDE_RING_CUH_
#define BOLE_KERNELS_CUDA_PRODUCTS_WIDE_RING_CUH_

#include <cstdint>

#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/products/copy_once.cuh"
#include "kernels/cuda/products/wide_product.h"

namespace bole::cuda {

inline constexpr int kGroupThreads = 128;  // Threads of a warpgroup.
inline constexpr int kWideRowBytes = 2 * kWideBoxColumns;
inline constexpr int kUnitBytes = kMaxBoxRows * kWideRowBytes;
// Boxes of x in the ring. Each arrives after all boxes of W that are in flight.
inline constexpr int kXStages = 12;
// The most boxes of W in the ring. With more of them, x arrives later.
inline constexpr int kMaxUnits = 15;
// One block fits on a multiprocessor, with room for blocks of short kernels.
inline constexpr int kMaxWideBytes =
    kXStages * kMaxWideRows * kWideRowBytes + kMaxUnits * kUnitBytes;
inline constexpr int kWideBarrierBytes =
    (2 * (kMaxUnits + kXStages) + 1) * static_cast<int>(sizeof(uint64_t));

// Threads that copy W: each copies one warpgroup's rows; for a single warpgroup
// two threads take turns. One thread for all warpgroups does not keep up with
// small boxes.
__host__ __device__ constexpr int WeightThreads(int groups) {
  return groups == 1 ? 2 : groups;
}

// Sums of a tile, in shared memory: [kN][SumStride()] floats, where those of
// warpgroup g begin at column g * group_sums. The stride keeps the threads of a
// warp, which hold 8 rows of 4 columns, in different banks.
__host__ __device__ inline int SumStride(int groups,
                                         int group_sums = kMaxBoxRows) {
  return groups * group_sums + 4;
}

// The bytes before the barriers: boxes of x, then those of W; at the end of the
// kernel, what a pair's other block has sent, and the sums.
__host__ __device__ inline int WideBytes(const WidePlan& plan, int box_rows) {
  const int ring =
      kXStages * box_rows * kWideRowBytes + plan.units * kUnitBytes;
  const int sums = plan.tiles > 1 ? 0
                                  : box_rows * SumStride(plan.groups) *
                                        static_cast<int>(sizeof(float));
  return ring > sums ? ring : sums;
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// The current position of one of the two sides in a ring of boxes.
struct RingPlace {
  int slot = 0;
  uint32_t parity = 0;

  // REQUIRES: step <= size.
  __device__ void Advance(int step, int size) {
    slot += step;
    if (slot < size) return;
    slot -= size;
    parity ^= 1;
  }
};

// Addresses in shared memory.
template <int kN>
struct WideRings {
  static constexpr int kXBytes = kN * kWideRowBytes;
  static constexpr int kBarrier = static_cast<int>(sizeof(uint64_t));

  uint32_t memory;
  uint32_t units;
  uint32_t barriers;

  __device__ WideRings(const void* shared, const WidePlan& plan)
      : memory(AddressOf(shared)),
        units(memory + kXStages * kXBytes),
        barriers(memory + WideBytes(plan, kN)) {}

  __device__ uint32_t x(int slot) const { return memory + slot * kXBytes; }
  __device__ uint32_t unit(int slot) const { return units + slot * kUnitBytes; }
  // The barriers of boxes that have arrived, and of those that have been read.
  __device__ uint32_t x_full(int slot) const {
    return barriers + slot * kBarrier;
  }
  __device__ uint32_t x_empty(int slot) const {
    return x_full(kXStages + slot);
  }
  __device__ uint32_t unit_full(int slot) const {
    return x_full(2 * kXStages + slot);
  }
  __device__ uint32_t unit_empty(int slot) const {
    return unit_full(kMaxUnits + slot);
  }
};

// This block's part of the work.
struct WideShare {
  int part;  // Which part of the columns.
  int first_chunk;
  int num_chunks;
  int num_copies;  // Chunks, of all tiles.
  int first_output;
  int output_step;  // From one tile of the block to its next.

  __device__ explicit WideShare(const WideTask& t) {
    const WidePlan& p = t.plan;
    const int block = static_cast<int>(blockIdx.x);
    part = block % p.splits;
    first_chunk = part * t.chunks / p.splits;
    num_chunks = (part + 1) * t.chunks / p.splits - first_chunk;
    num_copies = num_chunks * p.tiles;
    const int tile_outputs = p.groups * p.group_outputs;
    first_output = block / p.splits * tile_outputs;
    output_step = p.blocks / p.splits * tile_outputs;
  }
};

// One of the threads that copy W. No kernel writes W, so it waits for none.
template <int kN>
struct WeightProducer {
  const WideTask& t;
  const WideShare& share;
  const WideRings<kN>& rings;
  int number;
  // The next box, counted over all boxes of the block, and where it is.
  int box = number;
  RingPlace place = {.slot = number, .parity = 0};
  int chunk = 0;
  int output =
      share.first_output + number % t.plan.groups * t.plan.group_outputs;

  __device__ int num_threads() const { return WeightThreads(t.plan.groups); }
  // Moves on by `chunks` chunks, in this tile or the next.
  __device__ void Skip(int chunks) {
    for (chunk += chunks; chunk >= share.num_chunks;) {
      chunk -= share.num_chunks;
      output += share.output_step;
    }
  }
  __device__ void Copy() {
    const WidePlan& p = t.plan;
    const uint32_t full = rings.unit_full(place.slot);
    ArriveExpecting(full, p.group_rows * kWideRowBytes);
    const uint32_t to = rings.unit(place.slot);
    const int column = (share.first_chunk + chunk) * kWideBoxColumns;
    if (t.gated) {
      CopyBoxOnce(t.weight, make_int4(column, 0, 0, output / kTurnRows), to,
                  full);
    } else {
      CopyBoxOnce(t.weight, Corner{.column = column, .row = output}, to, full);
    }
    box += num_threads();
    place.Advance(num_threads(), p.units);
    Skip(p.groups == 1 ? 2 : 1);
  }
  // Runs before anything else, because no kernel writes W.
  __device__ void Start() {
    PrefetchMap(t.weight);
    for (int u = number; u < t.plan.units; u += num_threads()) {
      InitBarrier(rings.unit_full(u), 1);
      InitBarrier(rings.unit_empty(u), kGroupThreads / 32);
    }
    FenceBarrierInit();
    Skip(number / t.plan.groups);
    const int end = min(t.plan.units, share.num_copies * t.plan.groups);
    while (box < end) Copy();
  }
  __device__ void Run() {
    const int end = share.num_copies * t.plan.groups;
    while (box < end) {
      WaitBarrier(rings.unit_empty(place.slot), place.parity ^ 1);
      Copy();
    }
  }
};

// The thread that copies x.
template <int kN>
struct XProducer {
  const WideTask& t;
  const WideShare& share;
  const WideRings<kN>& rings;

  __device__ void Start() const {
    PrefetchMap(t.x);
    for (int s = 0; s < kXStages; ++s) {
      InitBarrier(rings.x_full(s), 1);
      InitBarrier(rings.x_empty(s), t.plan.groups * kGroupThreads / 32);
    }
    FenceBarrierInit();
  }
  __device__ void Run() const {
    RingPlace place;
    int chunk = 0;
    for (int i = 0; i < share.num_copies; ++i) {
      WaitBarrier(rings.x_empty(place.slot), place.parity ^ 1);
      const uint32_t full = rings.x_full(place.slot);
      ArriveExpecting(full, WideRings<kN>::kXBytes);
      CopyBox(t.x, (share.first_chunk + chunk) * kWideBoxColumns, 0,
              rings.x(place.slot), full);
      place.Advance(1, kXStages);
      if (++chunk == share.num_chunks) chunk = 0;
    }
  }
};

#endif

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_PRODUCTS_WIDE_RING_CUH_
