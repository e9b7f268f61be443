// The ring of stages through which a product with integers streams its weights,
// and the thread that fills it (int7_product.cu).
#ifndef BOLE_KERNELS_CUDA_PRODUCTS_INT7_RING_CUH_
#define BOLE_KERNELS_CUDA_PRODUCTS_INT7_RING_CUH_

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/products/copy_once.cuh"
#include "kernels/cuda/products/int7_product.h"
#include "kernels/cuda/products/stream_ring.cuh"

namespace bole::cuda {

inline constexpr int kInt7Warps = kConsumers / 32;
inline constexpr int kXUnitBytes = 2 * kPieceColumns;  // A piece of a row.

// A stage holds the pieces of a chunk: those of the tile's strips, one after
// the other, then those of x. Computed on the host and passed to the kernel.
struct Int7Stages {
  int weight_bytes;
  int stage_bytes;
  int count;
  int bytes;
};
inline Int7Stages Int7StagesFor(const Int7Plan& plan, int box_rows) {
  Int7Stages s = {};
  s.weight_bytes = plan.chunk_pieces * plan.most_strips() * kUnitBytes;
  s.stage_bytes = s.weight_bytes + plan.chunk_pieces * box_rows * kXUnitBytes;
  s.count = std::min(kMaxRingBytes / s.stage_bytes, kMaxStages);
  s.bytes = std::max(s.count * s.stage_bytes, kMinRingBytes);
  return s;
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// Copies the map's box of all rows of x and the pieces from `piece` on.
__device__ inline void CopyPieces(const CUtensorMap& map, int piece,
                                  uint32_t to, uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::"
      "bytes [%0], [%1, {%2, %2, %3}], [%4];" ::"r"(to),
      "l"(&map), "r"(0), "r"(piece), "r"(barrier)
      : "memory");
}

struct StripTile {
  int first_strip;
  int strips;
};

// This block's part of the work. The thread that copies queries it for every
// chunk, so the queries need no divisions.
struct Int7Part {
  int rank;  // In the cluster.
  int cluster;
  int clusters;
  int first_piece;
  int num_pieces;
  int num_chunks;

  __device__ explicit Int7Part(const Int7Task& t) {
    const Int7Plan& p = t.plan;
    const bool is_paired = p.cluster == 2;
    const int block = static_cast<int>(blockIdx.x);
    rank = is_paired ? block % 2 : 0;
    cluster = is_paired ? block / 2 : block;
    clusters = is_paired ? p.blocks / 2 : p.blocks;
    const int pieces = PiecesOf(t.weight.columns);
    const int half = pieces / 2;
    first_piece = rank * half;
    num_pieces = is_paired ? (rank == 0 ? half : pieces - half) : pieces;
    num_chunks = (num_pieces + p.chunk_pieces - 1) / p.chunk_pieces;
  }
  __device__ int PiecesOfChunk(const Int7Task& t, int chunk) const {
    const int size = t.plan.chunk_pieces;
    return min(size, num_pieces - chunk * size);
  }
  __device__ StripTile TileAt(const Int7Task& t, int i) const {
    const Int7Plan& p = t.plan;
    const int tile = i * clusters + cluster;
    return {tile * p.tile_strips + min(tile, p.longer_tiles),
            p.tile_strips + (tile < p.longer_tiles ? 1 : 0)};
  }
};

// The ring, and the current position of one of its two sides.
template <int kN>
struct Int7Ring {
  unsigned char* memory;
  Int7Stages stages;
  int stage = 0;
  uint32_t parity = 0;

  __device__ unsigned char* weight() const {
    return memory + stage * stages.stage_bytes;
  }
  __device__ unsigned char* x() const { return weight() + stages.weight_bytes; }
  // The barriers of a stage.
  __device__ uint32_t full(int of) const {
    return AddressOf(memory) + stages.bytes +
           of * static_cast<int>(sizeof(uint64_t));
  }
  __device__ uint32_t empty(int of) const { return full(kMaxStages + of); }
  __device__ void Advance() {
    if (++stage < stages.count) return;
    stage = 0;
    parity ^= 1;
  }
};

// The current position of the thread that copies.
struct Int7Place {
  int tile = 0;
  int chunk = 0;

  __device__ void Advance(const Int7Part& part) {
    if (++chunk < part.num_chunks) return;
    chunk = 0;
    ++tile;
  }
};

// The thread that keeps the copy engine busy.
template <int kN>
struct Int7Producer {
  using BlockRing = Int7Ring<kN>;

  const Int7Task& t;
  const Int7Part& part;

  __device__ void CopyWeight(const BlockRing& ring,
                             const Int7Place& place) const {
    const StripTile tile = part.TileAt(t, place.tile);
    const uint32_t full = ring.full(ring.stage);
    // Boxes count as a whole, even if they extend beyond the last piece.
    ArriveExpecting(full, t.plan.chunk_pieces *
                              (tile.strips * kUnitBytes + kN * kXUnitBytes));
    if (tile.strips == 0) return;
    const bool is_longer = tile.strips > t.plan.tile_strips;
    CopyBoxOnce(
        is_longer ? t.units_of_longer : t.units,
        make_int3(0, part.first_piece + place.chunk * t.plan.chunk_pieces,
                  tile.first_strip),
        AddressOf(ring.weight()), full);
  }
  __device__ void CopyX(const BlockRing& ring, const Int7Place& place) const {
    CopyPieces(t.x, part.first_piece + place.chunk * t.plan.chunk_pieces,
               AddressOf(ring.x()), ring.full(ring.stage));
  }
  __device__ bool IsEnd(const Int7Place& place) const {
    return place.tile == t.plan.tiles;
  }
  // Copies as much of W as there is room for, before anything else. Returns
  // where it stopped.
  __device__ Int7Place Start(BlockRing ring) const {
    for (int s = 0; s < ring.stages.count; ++s) {
      InitBarrier(ring.full(s), 1);
      InitBarrier(ring.empty(s), kInt7Warps);
    }
    FenceBarrierInit();
    Int7Place place;
    for (int s = 0; s < ring.stages.count && !IsEnd(place); ++s) {
      CopyWeight(ring, place);
      ring.Advance();
      place.Advance(part);
    }
    return place;
  }
  __device__ void Run(BlockRing ring, Int7Place place) const {
    WaitForPrevious();
    BlockRing first = ring;
    Int7Place ahead;
    for (int s = 0; s < ring.stages.count && !IsEnd(ahead); ++s) {
      CopyX(first, ahead);
      first.Advance();
      ahead.Advance(part);
    }
    for (; !IsEnd(place); place.Advance(part), ring.Advance()) {
      WaitBarrier(ring.empty(ring.stage), ring.parity);
      CopyWeight(ring, place);
      CopyX(ring, place);
    }
  }
};

#endif

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_PRODUCTS_INT7_RING_CUH_
