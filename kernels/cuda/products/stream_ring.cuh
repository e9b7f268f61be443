// The ring of stages through which a product of few rows streams its weights,
// and the thread that fills it (stream_product.cu).
#ifndef BOLE_KERNELS_CUDA_PRODUCTS_STREAM_RING_CUH_
#define BOLE_KERNELS_CUDA_PRODUCTS_STREAM_RING_CUH_

#include <cstdint>

#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/products/copy_once.cuh"
#include "kernels/cuda/products/stream_product.h"

namespace bole::cuda {

inline constexpr int kConsumers = 256;
inline constexpr int kThreads = kConsumers + 32;
inline constexpr int kRowBytes = 2 * kBoxColumns;
inline constexpr int kMaxStages = 16;
// The bytes that follow a single row of x: 112 are read (WgmmaVector), and
// memcheck assumes that an operand has 256 bytes from where it begins.
inline constexpr int kBeyondRow = 224;
// The bytes of all barriers.
inline constexpr int kBarrierBytes =
    2 * kMaxStages * static_cast<int>(sizeof(uint64_t));
// There is room for two blocks on a multiprocessor and something small beside
// them, but never for three: so a kernel that starts while another one runs
// gets one block on each. Reading at full speed takes about 90 KB in flight to
// each multiprocessor.
inline constexpr int kMaxRingBytes = 108 << 10;
inline constexpr int kMinRingBytes = 78 << 10;
// All shared memory of a block of a cluster. Two such blocks never fit on a
// multiprocessor, nor do two blocks of another product beside one of them,
// whichever starts first.
inline constexpr int kClusterBlockBytes = (113 << 10) + 512;

// Rows of x that are multiplied, if there may be kRows.
template <int kRows>
inline constexpr int kProductRows = kRows < 8 ? 8 : kRows;

// A stage holds the boxes of a chunk of the tile, then those of x; each begins
// at a multiple of 1024 bytes. A single row of x lies after the stages instead,
// with all of the block's columns. Warpgroups read kReadRows rows of a chunk,
// wherever the tile ends.
template <int kRows, int kBoxes>
struct RingShape {
  static constexpr bool kOneRow = kRows == 1;
  // Bytes of a box of x.
  static constexpr int kXBytes = kOneRow ? 0 : kRows * kRowBytes;
  static constexpr int kReadRows = kMaxTileRows / kBoxes;

  int weight_bytes;  // Bytes of a box of W.
  int stage_bytes;
  int stages;
  int bytes;

  // The ring begins after `front_bytes` of other data.
  __host__ __device__ RingShape(const StreamTask& t, int front_bytes) {
    const StreamPlan& plan = t.plan;
    const bool clustered = plan.cluster > 1;
    const int of_cluster = kClusterBlockBytes - front_bytes;
    const int most = clustered ? of_cluster : kMaxRingBytes;
    const int least = clustered ? of_cluster : kMinRingBytes;
    weight_bytes = (plan.tile_rows + 7) / 8 * 8 * kRowBytes;
    stage_bytes = kBoxes * (weight_bytes + kXBytes);
    // Bytes that are read beyond the last stage, whatever they contain.
    const int read = kReadRows * kRowBytes - weight_bytes - kBoxes * kXBytes;
    const int row = kOneRow ? RowBytes(t) : 0;
    const int beyond = read > row ? read : row;
    const int fit = (most - beyond) / stage_bytes;
    stages = fit < kMaxStages ? fit : kMaxStages;
    const int used = stages * stage_bytes + beyond;
    bytes = used > least ? used : least;
  }

 private:
  __host__ __device__ static int RowBytes(const StreamTask& t) {
    const int chunks = (t.chunks + t.plan.cluster - 1) / t.plan.cluster;
    return chunks * kBoxes * kRowBytes + kBeyondRow;
  }
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// The ring, and the current position of one of its two sides.
template <int kRows, int kBoxes>
struct Ring {
  using Shape = RingShape<kRows, kBoxes>;

  uint32_t barriers;
  uint32_t memory;
  Shape shape;
  int stage = 0;
  uint32_t parity = 0;

  // The barriers come first in `shared`; the stages begin `front_bytes` after
  // its start.
  __device__ Ring(const void* shared, int front_bytes, const Shape& s)
      : barriers(AddressOf(shared)), memory(barriers + front_bytes), shape(s) {}

  // Addresses in shared memory.
  __device__ uint32_t weight(int box) const {
    return memory + stage * shape.stage_bytes + box * shape.weight_bytes;
  }
  __device__ uint32_t x(int box) const {
    return weight(kBoxes) + box * Shape::kXBytes;
  }
  // Where the one row of x begins.
  __device__ uint32_t row() const {
    return memory + shape.stages * shape.stage_bytes;
  }
  // The barriers of a stage.
  __device__ uint32_t full(int of) const {
    return barriers + of * static_cast<int>(sizeof(uint64_t));
  }
  __device__ uint32_t empty(int of) const { return full(kMaxStages + of); }
  __device__ void Advance() {
    if (++stage < shape.stages) return;
    stage = 0;
    parity ^= 1;
  }
};

// This block's part of the work.
struct Share {
  int rank;  // In the cluster.
  int first_chunk;
  int num_chunks;
  int num_copies;   // Chunks, of all tiles.
  int group;        // The cluster's number.
  int output_step;  // Columns of out from one of its tiles to the next.

  __device__ explicit Share(const StreamTask& t) {
    const StreamPlan& p = t.plan;
    rank = static_cast<int>(blockIdx.x) % p.cluster;
    first_chunk = rank * t.chunks / p.cluster;
    num_chunks = (rank + 1) * t.chunks / p.cluster - first_chunk;
    num_copies = num_chunks * p.tiles;
    group = static_cast<int>(blockIdx.x) / p.cluster;
    output_step = p.blocks / p.cluster * p.tile_outputs;
  }
  // The column of out at which this block's tile number i begins.
  __device__ int FirstOutput(const StreamTask& t, int i) const {
    return group * t.plan.tile_outputs + i * output_step;
  }
};

// The thread that keeps the copy engine busy.
template <int kRows, int kBoxes, Side kSide>
struct Producer {
  using BlockRing = Ring<kRows, kBoxes>;
  static constexpr bool kCopiesX = kRows > 1;

  const StreamTask& t;
  const Share& share;

  __device__ int Column(int chunk, int box) const {
    return ((share.first_chunk + chunk) * kBoxes + box) * kBoxColumns;
  }
  __device__ void CopyWeight(const BlockRing& ring, int tile, int chunk) const {
    const uint32_t full = ring.full(ring.stage);
    ArriveExpecting(full, kBoxes * (t.plan.tile_rows * kRowBytes +
                                    BlockRing::Shape::kXBytes));
    const int row = share.FirstOutput(t, tile);
    if constexpr (kSide == Side::kBehind && kBoxes == 1) {
      if (t.gated) {
        // One copy brings the rows of both parts of the map.
        CopyBoxOnce(t.weight, make_int3(Column(chunk, 0), row, 0),
                    ring.weight(0), full);
        return;
      }
    }
#pragma unroll
    for (int box = 0; box < kBoxes; ++box) {
      CopyBoxOnce(t.weight, {.column = Column(chunk, box), .row = row},
                  ring.weight(box), full);
    }
  }
  __device__ void CopyX(const BlockRing& ring, int chunk) const {
#pragma unroll
    for (int box = 0; box < kBoxes; ++box) {
      CopyBox(t.x, Column(chunk, box), 0, ring.x(box), ring.full(ring.stage));
    }
  }
  // Copies as much of W as there is room for, of the first tile or of several,
  // before anything else, because no kernel writes it.
  __device__ void Start(BlockRing ring) const {
    for (int s = 0; s < ring.shape.stages; ++s) {
      InitBarrier(ring.full(s), 1);
      InitBarrier(ring.empty(s), kConsumers / 32);
    }
    FenceBarrierInit();
    for (int i = 0; i < Ahead(ring); ++i, ring.Advance()) {
      CopyWeight(ring, i / share.num_chunks, i % share.num_chunks);
    }
  }
  __device__ void Run(BlockRing ring) const {
    const int ahead = Ahead(ring);
    if constexpr (kCopiesX) {
      WaitForPrevious();
      BlockRing first = ring;
      for (int i = 0; i < ahead; ++i, first.Advance()) {
        CopyX(first, i % share.num_chunks);
      }
    }
    int tile = ahead / share.num_chunks;
    int chunk = ahead % share.num_chunks;
    for (int i = ahead; i < share.num_copies; ++i, ring.Advance()) {
      WaitBarrier(ring.empty(ring.stage), ring.parity);
      CopyWeight(ring, tile, chunk);
      if constexpr (kCopiesX) CopyX(ring, chunk);
      if (++chunk < share.num_chunks) continue;
      chunk = 0;
      ++tile;
    }
  }
  __device__ int Ahead(const BlockRing& ring) const {
    return min(ring.shape.stages, share.num_copies);
  }
};

#endif

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_PRODUCTS_STREAM_RING_CUH_
