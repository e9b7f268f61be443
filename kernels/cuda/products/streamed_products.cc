#include "kernels/cuda/products/streamed_products.h"

#include <optional>

#include "common/status_macros.h"
#include "kernels/cuda/device_shape.h"
#include "kernels/cuda/products/product_task.h"
#include "kernels/cuda/products/stream_product.h"
#include "kernels/cuda/products/wide_product.h"

namespace bole::cuda {
namespace {

// The most rows of x for which a pair of products, or a product with its gate,
// is faster.
constexpr int kMaxPairRows = 8;

int Ceil(int a, int b) { return (a + b - 1) / b; }

// Each tile has as many gates as ups.
StreamPlan PlanForGated(const Product& product, int multiprocessors) {
  const int outputs = product.rows / 2;
  const int tiles = Ceil(2 * outputs, multiprocessors * kMaxTileRows);
  const int tile_outputs = Ceil(outputs, multiprocessors * tiles);
  return {.blocks = multiprocessors,
          .cluster = 1,
          .tile_rows = 2 * tile_outputs,
          .tile_outputs = tile_outputs,
          .tiles = tiles,
          .boxes = 1};
}

// Rows of W are divided evenly, so that all blocks keep reading until the end.
// Where that leaves a block at most half of a tile, pairs of blocks share their
// rows and divide the columns: a copy of x then serves more rows, and more
// bytes of each row of W are copied at a time.
StreamPlan PlanFor(const Product& product, int multiprocessors) {
  if (product.gated) return PlanForGated(product, multiprocessors);
  const int boxes = Ceil(product.columns, kBoxColumns);
  const int pairs = multiprocessors / 2;
  if (product.rows <= pairs * kMaxTileRows && boxes >= 4) {
    const int tile_rows = Ceil(product.rows, pairs);
    return {.blocks = 2 * pairs,
            .cluster = 2,
            .tile_rows = tile_rows,
            .tile_outputs = tile_rows,
            .tiles = 1,
            .boxes = tile_rows <= kMaxTileRows / 2 ? 2 : 1};
  }
  const int tiles = Ceil(product.rows, multiprocessors * kMaxTileRows);
  const int tile_rows = Ceil(product.rows, multiprocessors * tiles);
  return {.blocks = multiprocessors,
          .cluster = 1,
          .tile_rows = tile_rows,
          .tile_outputs = tile_rows,
          .tiles = tiles,
          .boxes = 1};
}

// Whether a block has room for its columns of a single row of x, beside a ring
// that is deep enough.
bool TakesOneRow(const Product& product, const StreamPlan& plan) {
  constexpr int kMaxColumns = 9216;  // Columns that fit in a block.
  return product.num_rows == 1 && product.columns <= plan.cluster * kMaxColumns;
}

absl::StatusOr<StreamTask> TaskFor(const Product& product,
                                   const StreamPlan& plan) {
  BOLE_ASSIGN_OR_RETURN(StreamTask task,
                        MakeProductTask<StreamTask>(
                            product, plan,
                            {.rows_of_weight = plan.tile_outputs,
                             .rows_of_x = StreamBoxRows(product.num_rows),
                             .columns_of_box = kBoxColumns,
                             .columns_of_chunk = plan.boxes * kBoxColumns}));
  task.columns = product.columns;
  if (TakesOneRow(product, plan)) task.row = product.x;
  return task;
}

}  // namespace

absl::StatusOr<std::unique_ptr<StreamedProducts>> StreamedProducts::Create() {
  BOLE_ASSIGN_OR_RETURN(const DeviceShape device, CurrentDeviceShape());
  std::optional<WideProducts> wide;
  if (device.is_hopper()) {
    BOLE_RETURN_IF_ERROR(PrepareStreamProducts());
    BOLE_ASSIGN_OR_RETURN(wide, WideProducts::Create());
  }
  return std::make_unique<StreamedProducts>(device.multiprocessors, wide);
}

bool StreamedProducts::Fits(const Product& product, ElementType type) const {
  return wide_.has_value() && type == ElementType::kBFloat16 &&
         product.num_rows >= 1 && product.num_rows <= kMaxWideRows &&
         product.columns % 8 == 0;
}

bool StreamedProducts::Takes(const Product& product, ElementType type) const {
  if (!Fits(product, type)) return false;
  if (!product.gated || product.num_rows <= kMaxPairRows) return true;
  return product.num_rows > kMaxStreamRows && wide_->CanGate(product);
}

ProductWay StreamedProducts::Choose(const Product& product,
                                    ElementType type) const {
  if (!Takes(product, type)) return ProductWay::kLibrary;
  if (product.num_rows <= kMaxStreamRows) return ProductWay::kStreamed;
  return wide_->IsFaster(product) ? ProductWay::kWide : ProductWay::kLibrary;
}

absl::Status StreamedProducts::Run(const Product& product,
                                   const Launch& on) const {
  if (product.num_rows > kMaxStreamRows) return wide_->Run(product, on);
  const StreamPlan plan = PlanFor(product, multiprocessors_);
  BOLE_ASSIGN_OR_RETURN(StreamTask task, TaskFor(product, plan));
  if (product.gated) {
    task.side = Side::kBehind;
    task.gated = true;
  }
  return LaunchStreamProduct(task, on);
}

bool StreamedProducts::TakePair(const ProductPair& pair,
                                ElementType type) const {
  const Product& ahead = pair.ahead;
  const bool fits = Fits(ahead, type) && Fits(pair.behind, type) &&
                    ahead.accumulate && !ahead.float_out &&
                    !pair.behind.float_out && ahead.num_rows <= kMaxPairRows;
  return fits && PlanFor(ahead, multiprocessors_).cluster == 2;
}

size_t StreamedProducts::PairScratchBytes(const ProductPair& pair) const {
  const StreamPlan plan = PlanFor(pair.ahead, multiprocessors_);
  return sizeof(float) * pair.ahead.num_rows * SquareParts(plan);
}

absl::Status StreamedProducts::RunPair(const ProductPair& pair, void* scratch,
                                       const Launch& on) const {
  const StreamPlan plan = PlanFor(pair.ahead, multiprocessors_);
  const DividedNorm norm = {.weight = pair.norm_weight,
                            .weighted = const_cast<void*>(pair.behind.x),
                            .squares = static_cast<float*>(scratch),
                            .parts = SquareParts(plan),
                            .width = pair.ahead.rows,
                            .epsilon = pair.epsilon};
  BOLE_ASSIGN_OR_RETURN(StreamTask ahead, TaskFor(pair.ahead, plan));
  ahead.side = Side::kAhead;
  ahead.norm = norm;
  BOLE_RETURN_IF_ERROR(LaunchStreamProduct(ahead, on));
  BOLE_ASSIGN_OR_RETURN(
      StreamTask behind,
      TaskFor(pair.behind, PlanFor(pair.behind, multiprocessors_)));
  behind.side = Side::kBehind;
  behind.norm = norm;
  behind.gated = pair.behind.gated;
  return LaunchStreamProduct(behind, on);
}

}  // namespace bole::cuda
