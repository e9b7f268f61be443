// Products of few rows with a matrix of 7-bit integers, bound by how fast its
// bytes can be read.
#ifndef BOLE_KERNELS_CUDA_PRODUCTS_INT7_PRODUCT_H_
#define BOLE_KERNELS_CUDA_PRODUCTS_INT7_PRODUCT_H_

#include <cstdint>

#include "absl/status/status.h"
#include "cuda.h"
#include "kernels/cuda/operators.h"
#include "kernels/cuda/products/int7_matrix.h"

namespace bole::cuda {

// The most rows of x.
inline constexpr int kMaxInt7Rows = 16;

// How the work is divided among blocks, and in a block among eight warps.
struct Int7Plan {
  int blocks;
  // Blocks of a cluster: 1, or 2 that divide the columns between them if tiles
  // == 1. Divides `blocks`.
  int cluster;
  int tiles;  // Tiles of a cluster, one after the other.
  // Strips of a tile; the first `longer_tiles` of all tiles have one more.
  int tile_strips;
  int longer_tiles;
  // Groups of warps: each takes every column_groups-th piece of a chunk, and
  // the warps of a group divide the strips. 1, 2, 4 or 8; 1 if tiles > 1.
  int column_groups;
  int chunk_pieces;  // Pieces that are copied at a time.

  constexpr int most_strips() const {
    return tile_strips + (longer_tiles > 0 ? 1 : 0);
  }
};

// The parameters of the kernel.
struct Int7Task {
  CUtensorMap x;  // [pieces, N, 32], in boxes of chunk_pieces pieces.
  // The weight's units, [strips, pieces], in boxes of a tile's strips by
  // chunk_pieces pieces.
  CUtensorMap units;
  CUtensorMap units_of_longer;  // For tiles with one more strip.
  Int7Matrix weight;
  const int32_t* count;  // [1] Rows of x in use.
  int num_rows;          // N
  Int7Plan plan;
  void* out;  // [N, weight rows]
  bool float_out;
  bool accumulate;
};

// Rows of x in a box, for the kernel that takes num_rows rows.
int Int7BoxRows(int num_rows);

// The most strips that a warp can have: their sums fit into registers, together
// with the scales and old values of the results, which are read early.
inline constexpr int kInt7WarpStrips = 3;

// Allows the kernels to use the shared memory that they need. To be called once
// for each device.
absl::Status PrepareInt7Products();

// REQUIRES: sm_90; 1 <= N <= kMaxInt7Rows; columns a multiple of kPieceColumns;
// a plan whose warps have at most kInt7WarpStrips strips.
absl::Status LaunchInt7Product(const Int7Task& task, const Launch& on);

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_PRODUCTS_INT7_PRODUCT_H_
