#include "kernels/cuda/products/wide_products.h"

#include <cstdint>

#include "common/status_macros.h"
#include "kernels/cuda/products/product_task.h"
#include "kernels/cuda/products/wide_product.h"

namespace bole::cuda {
namespace {

// The most rows of W in a tile.
constexpr int kTileRows = kMaxWideGroups * kMaxBoxRows;
// The fewest columns that pairs of blocks divide: with fewer, adding up the
// sums costs more than it gains.
constexpr int kFewestPairColumns = 1024;
// Where these kernels are faster than cuBLASLt, as steps of the 4B, 9B and 27B
// models showed: with at least this many bytes of W for each block and, where
// blocks have all columns, with tiles of at most this many rows (with 132 they
// are, with 144 they are not).
constexpr int64_t kLeastBlockBytes = 600 << 10;
constexpr int kMostSingleRows = 132;
// The same for a gated product, in one tile.
constexpr int64_t kLeastGatedBytes = 1200 << 10;

int Ceil(int a, int b) { return (a + b - 1) / b; }

// The plan for at most `clusters` clusters of `splits` blocks. Rows of W are
// divided in multiples of 4, because four outputs are written at a time, or in
// whole turns of gates and ups.
WidePlan Divide(const Product& product, int clusters, int splits) {
  const int tiles = Ceil(product.rows, clusters * kTileRows);
  const int tile_rows = Ceil(product.rows, clusters * tiles);
  const int groups = Ceil(tile_rows, kMaxBoxRows);
  const int unit = product.gated ? 2 * kTurnRows : 4;
  const int group_rows = unit * Ceil(tile_rows, unit * groups);
  return {.blocks = Ceil(product.rows, tiles * groups * group_rows) * splits,
          .splits = splits,
          .groups = groups,
          .group_rows = group_rows,
          .group_outputs = product.gated ? group_rows / 2 : group_rows,
          .tiles = tiles,
          .units = WideUnits(groups)};
}

}  // namespace

absl::StatusOr<WideProducts> WideProducts::Create() {
  BOLE_RETURN_IF_ERROR(PrepareWideProducts());
  BOLE_ASSIGN_OR_RETURN(const int singles, MaxWideClusters(1));
  BOLE_ASSIGN_OR_RETURN(const int pairs, MaxWideClusters(2));
  return WideProducts(singles, pairs);
}

WidePlan WideProducts::PlanFor(const Product& product) const {
  const WidePlan of_pairs = Divide(product, pairs_, 2);
  return of_pairs.tiles == 1 && product.columns >= kFewestPairColumns &&
                 !product.gated
             ? of_pairs
             : Divide(product, singles_, 1);
}

bool WideProducts::CanGate(const Product& product) const {
  return product.rows % (2 * kTurnRows) == 0 && !product.float_out &&
         !product.accumulate && PlanFor(product).tiles == 1;
}

bool WideProducts::IsFaster(const Product& product) const {
  const WidePlan plan = PlanFor(product);
  const int64_t bytes = int64_t{2} * product.rows * product.columns;
  if (product.gated) return bytes >= plan.blocks * kLeastGatedBytes;
  return bytes >= plan.blocks * kLeastBlockBytes &&
         (plan.splits > 1 || plan.groups * plan.group_rows <= kMostSingleRows);
}

absl::Status WideProducts::Run(const Product& product, const Launch& on) const {
  const WidePlan plan = PlanFor(product);
  BOLE_ASSIGN_OR_RETURN(
      WideTask task,
      MakeProductTask<WideTask>(product, plan,
                                {.rows_of_weight = plan.group_outputs,
                                 .rows_of_x = WideBoxRows(product.num_rows),
                                 .columns_of_box = kWideBoxColumns,
                                 .columns_of_chunk = kWideBoxColumns,
                                 .turn_rows = product.gated ? kTurnRows : 0}));
  task.gated = product.gated;
  return LaunchWideProduct(task, on);
}

}  // namespace bole::cuda
