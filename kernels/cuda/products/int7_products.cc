#include "kernels/cuda/products/int7_products.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "cuda_runtime.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/device_shape.h"
#include "kernels/cuda/products/int7_product.h"
#include "kernels/cuda/tensor_map.h"

namespace bole::cuda {
namespace {

constexpr int kWarps = 8;
// The most strips of a tile.
constexpr int kMostStrips = kWarps * kInt7WarpStrips;
// The bytes that a stage of the ring should hold: W and x of one chunk.
constexpr int kStageBytes = 24 << 10;
// Tiles of at most this many strips are given to pairs of blocks, which divide
// x between them: reading all of it would cost too much beside a small tile's
// weights.
constexpr int kMostPairedStrips = 12;

int Ceil(int a, int b) { return (a + b - 1) / b; }

// Into how many groups the warps of a block are divided for `strips` strips: so
// that the busiest warp has the least to do and, among equals, so that warps
// have two strips, which share what they read of x.
int GroupsFor(int strips) {
  int best = 1;
  for (int groups = 2; groups <= kWarps; groups *= 2) {
    const int of_warp = Ceil(strips * groups, kWarps);
    const int load = of_warp * best;
    const int least = Ceil(strips * best, kWarps) * groups;
    if (of_warp > kInt7WarpStrips) break;
    if (load < least || (load == least && of_warp <= 2)) best = groups;
  }
  return best;
}

// The pieces of a chunk: at most `most`, but at least one for each group, and
// if possible so many that the last chunk of all pieces is as long as the
// others.
int ChunkPiecesFor(int most, int pieces, int groups) {
  most = std::max(1, most / groups);
  for (int of_group = most; 2 * of_group > most; --of_group) {
    if (pieces % (of_group * groups) == 0) return of_group * groups;
  }
  return most * groups;
}

// Strips are divided evenly, so that all blocks keep reading until the end.
Int7Plan PlanFor(const Product& product, int multiprocessors) {
  const int strips = StripsOf(product.rows);
  const int pairs = multiprocessors / 2;
  const bool is_paired = Ceil(strips, pairs) <= kMostPairedStrips &&
                         PiecesOf(product.columns) >= 4;
  Int7Plan plan = {};
  plan.cluster = is_paired ? 2 : 1;
  plan.blocks = is_paired ? 2 * pairs : multiprocessors;
  const int clusters = plan.blocks / plan.cluster;
  plan.tiles = Ceil(strips, clusters * kMostStrips);
  plan.tile_strips = strips / (clusters * plan.tiles);
  plan.longer_tiles = strips % (clusters * plan.tiles);
  plan.column_groups = plan.tiles == 1 ? GroupsFor(plan.most_strips()) : 1;
  const int piece_bytes = plan.most_strips() * kUnitBytes +
                          Int7BoxRows(product.num_rows) * kPieceColumns * 2;
  plan.chunk_pieces = ChunkPiecesFor(kStageBytes / piece_bytes,
                                     PiecesOf(product.columns) / plan.cluster,
                                     plan.column_groups);
  return plan;
}

// To the copy engine a unit is a piece of kUnitBytes / 2 elements, and a piece
// of the matrix is a row of units, one for each strip.
absl::StatusOr<CUtensorMap> UnitsMapOf(const Int7Matrix& weight,
                                       const Int7Plan& plan, int strips) {
  return PiecesMapOf({.data = weight.data,
                      .rows = PiecesOf(weight.columns),
                      .columns = StripsOf(weight.rows) * kUnitBytes / 2,
                      .piece_columns = kUnitBytes / 2,
                      .box_rows = plan.chunk_pieces,
                      .box_pieces = std::max(strips, 1)});
}

}  // namespace

absl::StatusOr<std::unique_ptr<Int7Products>> Int7Products::Create() {
  BOLE_ASSIGN_OR_RETURN(const DeviceShape device, CurrentDeviceShape());
  if (device.is_hopper()) BOLE_RETURN_IF_ERROR(PrepareInt7Products());
  return std::unique_ptr<Int7Products>(
      new Int7Products(device.multiprocessors, device.is_hopper()));
}

bool Int7Products::HasColumns(int columns, ElementType type) const {
  return supported_ && type == ElementType::kBFloat16 &&
         columns % kPieceColumns == 0;
}

bool Int7Products::Takes(const Product& product, ElementType type) const {
  return HasColumns(product.columns, type) && product.num_rows >= 1 &&
         product.num_rows <= kMaxInt7Rows;
}

absl::Status Int7Products::Quantize(DeviceMatrix& matrix,
                                    const Launch& on) const {
  // The number of a bad row is stored after the integers and their scales.
  const size_t bytes = Int7Bytes(matrix.rows, matrix.columns);
  void* memory = nullptr;
  if (cudaMalloc(&memory, bytes + sizeof(int32_t)) != cudaSuccess) {
    cudaGetLastError();
    return absl::ResourceExhaustedError(
        absl::StrCat("no room on the GPU for ", bytes, " bytes of a matrix of ",
                     matrix.rows, " by ", matrix.columns, " in integers"));
  }
  std::unique_ptr<void, cudaError_t (*)(void*)> owned(memory, &cudaFree);
  void* const found = static_cast<char*>(memory) + bytes;
  int32_t bad_row = -1;
  BOLE_RETURN_IF_ERROR(
      ToStatus(cudaMemsetAsync(found, 0xff, sizeof(bad_row), on.stream),
               "quantising a matrix"));
  BOLE_RETURN_IF_ERROR(QuantizeInt7(
      matrix.data, Int7MatrixAt(memory, matrix.rows, matrix.columns),
      static_cast<int32_t*>(found), on));
  BOLE_RETURN_IF_ERROR(
      ToStatus(cudaMemcpyAsync(&bad_row, found, sizeof(bad_row),
                               cudaMemcpyDeviceToHost, on.stream),
               "quantising a matrix"));
  BOLE_RETURN_IF_ERROR(
      ToStatus(cudaStreamSynchronize(on.stream), "quantising a matrix"));
  if (bad_row >= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("row ", bad_row, " of a matrix of ", matrix.rows, " by ",
                     matrix.columns, " has an element that is not finite"));
  }
  if (HasColumns(matrix.columns, on.type)) matrix.int7 = owned.release();
  return absl::OkStatus();
}

absl::Status Int7Products::Run(const Product& product, const Launch& on) const {
  Int7Task task = {.x = {},
                   .units = {},
                   .units_of_longer = {},
                   .weight = Int7MatrixAt(const_cast<void*>(product.weight),
                                          product.rows, product.columns),
                   .count = product.count,
                   .num_rows = product.num_rows,
                   .plan = PlanFor(product, multiprocessors_),
                   .out = product.out,
                   .float_out = product.float_out,
                   .accumulate = product.accumulate};
  BOLE_ASSIGN_OR_RETURN(task.x,
                        PiecesMapOf({.data = product.x,
                                     .rows = product.num_rows,
                                     .columns = product.columns,
                                     .piece_columns = kPieceColumns,
                                     .box_rows = Int7BoxRows(product.num_rows),
                                     .box_pieces = task.plan.chunk_pieces}));
  const int strips = task.plan.tile_strips;
  BOLE_ASSIGN_OR_RETURN(task.units, UnitsMapOf(task.weight, task.plan, strips));
  BOLE_ASSIGN_OR_RETURN(task.units_of_longer,
                        UnitsMapOf(task.weight, task.plan, strips + 1));
  return LaunchInt7Product(task, on);
}

}  // namespace bole::cuda
