// Products of few rows, bound by how fast their weights can be read.
#ifndef BOLE_KERNELS_CUDA_PRODUCTS_STREAM_PRODUCT_H_
#define BOLE_KERNELS_CUDA_PRODUCTS_STREAM_PRODUCT_H_

#include <cstdint>

#include "absl/status/status.h"
#include "cuda.h"
#include "kernels/cuda/operators.h"

namespace bole::cuda {

// The most rows of x, and of a tile of W.
inline constexpr int kMaxStreamRows = 32;
inline constexpr int kMaxTileRows = 128;
// The columns of a box, which is what the copy engine copies at a time.
inline constexpr int kBoxColumns = 64;

// How the work is divided among blocks.
struct StreamPlan {
  int blocks;
  // Blocks of a cluster, which divide the columns of each tile between them: 1,
  // or 2 if tiles == 1 and there are at least two chunks. Divides `blocks`.
  int cluster;
  int tile_rows;     // Rows of W in a tile.
  int tile_outputs;  // Columns of out: as many, or half if gated.
  int tiles;         // Tiles of a cluster, one after the other.
  // Boxes of a chunk, which is what a warpgroup works on at a time. With 1 each
  // of the two multiplies half of the tile's rows; with 2 each multiplies one
  // box (tile_rows <= 64, cluster == 2).
  int boxes;
};

// A norm between two products is divided between them: the product before it
// (kAhead) multiplies by the norm's weights, the product after it (kBehind) by
// the scales of the rows, which are 1 if there are no parts of squares.
enum class Side { kNone, kAhead, kBehind };
struct DividedNorm {
  const float* weight;  // [width]
  void* weighted;  // [N, width], bf16: out of the first product times `weight`.
  // [N, parts], parts = SquareParts() of the plan of the first product: sums of
  // squares of its out.
  float* squares;
  int parts;  // Or 0: x is multiplied as it is.
  int width;
  float epsilon;
};

// The parameters of the kernel.
struct StreamTask {
  CUtensorMap weight;    // [rows, columns], in boxes of tile_rows; if gated
                         // [2, rows, columns], in boxes of 2 by tile_rows / 2.
  CUtensorMap x;         // [N, columns], in boxes of StreamBoxRows().
  const int32_t* count;  // [1] Rows of x in use.
  int num_rows;          // N
  int rows;              // Columns of out.
  int chunks;            // Chunks of a row of W.
  StreamPlan plan;
  void* out;  // [N, rows]
  bool float_out;
  bool accumulate;
  Side side = Side::kNone;  // Ahead of a norm: accumulate, cluster == 2, bf16.
  DividedNorm norm = {};    // The norm of out (kAhead) or of x (kBehind).
  bool gated = false;       // out = silu(x W[0]^T) * (x W[1]^T): kBehind,
                            // cluster == 1.
  const void* row = nullptr;  // x, which every block keeps, if N == 1.
  int columns = 0;            // Columns of `row`.
};

// Rows of x in a box.
int StreamBoxRows(int num_rows);

// How many sums of squares a product leaves for a row of out.
int SquareParts(const StreamPlan& plan);

// Allows the kernels to use the shared memory that they need. To be called once
// for each device.
absl::Status PrepareStreamProducts();

// REQUIRES: 1 <= N <= kMaxStreamRows, tile_rows <= kMaxTileRows, and the
// plan's tiles cover W.
absl::Status LaunchStreamProduct(const StreamTask& task, const Launch& on);

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_PRODUCTS_STREAM_PRODUCT_H_
