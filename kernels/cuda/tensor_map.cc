#include "kernels/cuda/tensor_map.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "cuda_runtime_api.h"
#include "kernels/cuda/check.h"

namespace bole::cuda {
namespace {

using Encode = decltype(&cuTensorMapEncodeTiled);

// Gets the function from the driver, which is not linked, because a program
// must start without one.
absl::StatusOr<Encode> FindEncode() {
  constexpr unsigned kSince = 12000;
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found;
  BOLE_RETURN_IF_ERROR(ToStatus(
      cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function,
                                       kSince, cudaEnableDefault, &found),
      "cuTensorMapEncodeTiled"));
  if (found != cudaDriverEntryPointSuccess || function == nullptr) {
    return absl::InternalError("the driver has no cuTensorMapEncodeTiled");
  }
  return reinterpret_cast<Encode>(function);
}

}  // namespace

absl::StatusOr<CUtensorMap> MapOf(const BoxedRows& boxed) {
  static const absl::StatusOr<Encode> encode = FindEncode();
  BOLE_RETURN_IF_ERROR(encode.status());
  // [turns, parts, rows of a turn, columns], without the dimensions of 1.
  const bool has_turns = boxed.turn_rows > 0;
  const int64_t part_rows = boxed.rows / boxed.parts;
  const int64_t turn_rows = has_turns ? boxed.turn_rows : part_rows;
  const int box_rows = has_turns ? boxed.turn_rows : boxed.box_rows;
  const auto parts = static_cast<cuuint32_t>(boxed.parts);
  const cuuint64_t size[] = {static_cast<cuuint64_t>(boxed.columns),
                             static_cast<cuuint64_t>(turn_rows), parts,
                             static_cast<cuuint64_t>(part_rows / turn_rows)};
  const cuuint64_t row_bytes = static_cast<cuuint64_t>(boxed.columns) * 2;
  const cuuint64_t step_bytes[] = {row_bytes, part_rows * row_bytes,
                                   turn_rows * row_bytes};
  const cuuint32_t box[] = {static_cast<cuuint32_t>(boxed.box_columns),
                            static_cast<cuuint32_t>(box_rows), parts,
                            static_cast<cuuint32_t>(boxed.box_rows / box_rows)};
  const cuuint32_t steps[] = {1, 1, 1, 1};
  const cuuint32_t dimensions = has_turns ? 4 : (boxed.parts > 1 ? 3 : 2);
  CUtensorMap map;
  const CUresult result = (*encode)(
      &map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, dimensions,
      const_cast<void*>(boxed.data), size, step_bytes, box, steps,
      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
      CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result == CUDA_SUCCESS) return map;
  return absl::InternalError(
      absl::StrCat("no tensor map of ", boxed.rows, " rows of ", boxed.columns,
                   " in boxes of ", boxed.box_rows, " by ", boxed.box_columns,
                   ": error ", static_cast<int>(result)));
}

absl::StatusOr<CUtensorMap> PiecesMapOf(const BoxedPieces& boxed) {
  static const absl::StatusOr<Encode> encode = FindEncode();
  BOLE_RETURN_IF_ERROR(encode.status());
  const int pieces = boxed.columns / boxed.piece_columns;
  const cuuint64_t size[] = {static_cast<cuuint64_t>(boxed.piece_columns),
                             static_cast<cuuint64_t>(boxed.rows),
                             static_cast<cuuint64_t>(pieces)};
  const cuuint64_t step_bytes[] = {
      static_cast<cuuint64_t>(boxed.columns) * 2,
      static_cast<cuuint64_t>(boxed.piece_columns) * 2};
  const cuuint32_t box[] = {static_cast<cuuint32_t>(boxed.piece_columns),
                            static_cast<cuuint32_t>(boxed.box_rows),
                            static_cast<cuuint32_t>(boxed.box_pieces)};
  const cuuint32_t steps[] = {1, 1, 1};
  CUtensorMap map;
  const CUresult result = (*encode)(
      &map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, /*tensorRank=*/3,
      const_cast<void*>(boxed.data), size, step_bytes, box, steps,
      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
      CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result == CUDA_SUCCESS) return map;
  return absl::InternalError(absl::StrCat(
      "no tensor map of ", boxed.rows, " rows of ", boxed.columns,
      " in boxes of ", boxed.box_rows, " by ", boxed.box_pieces, " pieces of ",
      boxed.piece_columns, ": error ", static_cast<int>(result)));
}

}  // namespace bole::cuda
