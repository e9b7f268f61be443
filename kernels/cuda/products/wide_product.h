// Products of more rows than stream_product.h takes, which are still bound by
// how fast their weights can be read.
#ifndef BOLE_KERNELS_CUDA_PRODUCTS_WIDE_PRODUCT_H_
#define BOLE_KERNELS_CUDA_PRODUCTS_WIDE_PRODUCT_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cuda.h"
#include "kernels/cuda/operators.h"

namespace bole::cuda {

// The most rows of x.
inline constexpr int kMaxWideRows = 64;
// The most rows of W in a box, which is what the copy engine copies at a time.
// A box has one warpgroup's rows.
inline constexpr int kMaxBoxRows = 64;
// Warpgroups that multiply, at most.
inline constexpr int kMaxWideGroups = 3;
inline constexpr int kWideBoxColumns = 64;

// How the work is divided among blocks. A tile of W is groups x group_rows
// rows, and each warpgroup multiplies its own.
struct WidePlan {
  int blocks;
  // Blocks of a cluster, 1 or 2: they divide the columns of a tile between
  // them. 1 if tiles > 1.
  int splits;
  int groups;
  int group_rows;     // 1 .. kMaxBoxRows
  int group_outputs;  // Columns of out: as many, or half if gated.
  int tiles;          // Tiles of a block, one after the other.
  int units;          // Boxes of W in the ring: WideUnits().
};

// In a box of W of a gated product, this many rows of gates alternate with as
// many rows of ups, so that a thread has both the gate and the up of an output
// among its products.
inline constexpr int kTurnRows = 8;

// The parameters of the kernel.
struct WideTask {
  CUtensorMap weight;    // [rows, columns], in boxes of group_rows; if gated
                         // [rows / kTurnRows, 2, kTurnRows, columns].
  CUtensorMap x;         // [N, columns], in boxes of WideBoxRows().
  const int32_t* count;  // [1] Rows of x in use.
  int num_rows;          // N
  int rows;              // Columns of out.
  int chunks;            // Chunks of a row of W, kWideBoxColumns each.
  WidePlan plan;
  void* out;  // [N, rows]
  bool float_out;
  bool accumulate;
  bool gated = false;  // out = silu(x W[0]^T) * (x W[1]^T), bf16: splits and
                       // tiles are 1, rows and group_outputs multiples of 8.
};

// The rows of x that the kernel for N rows multiplies.
int WideBoxRows(int num_rows);

// Boxes of W in the ring, a multiple of `groups`, so that a slot always belongs
// to the same warpgroup, which sees every lap of it. In a slot of another
// warpgroup, the barrier's parity could not tell the lap that it waits for from
// the lap before the last, because copies do not arrive in order.
int WideUnits(int groups);

// Allows the kernels to use the shared memory that they need. To be called once
// for each device.
absl::Status PrepareWideProducts();

// How many clusters of `splits` blocks can run at a time, whatever N; 0 if none
// can. To be called after PrepareWideProducts().
absl::StatusOr<int> MaxWideClusters(int splits);

// REQUIRES: 1 <= N <= kMaxWideRows, and the plan's tiles cover W.
absl::Status LaunchWideProduct(const WideTask& task, const Launch& on);

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_PRODUCTS_WIDE_PRODUCT_H_
