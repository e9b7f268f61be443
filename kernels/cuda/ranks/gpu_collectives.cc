#include "kernels/cuda/ranks/gpu_collectives.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "kernels/cuda/ranks/nccl_collectives.h"
#include "kernels/cuda/ranks/push_collectives.h"

namespace bole::cuda {

absl::StatusOr<std::unique_ptr<GpuCollectives>> GpuCollectives::Create(
    int device, CollectivesKind kind, std::chrono::milliseconds deadline,
    Communicator& ranks, const Launch& on) {
  const int count = ranks.rank().count;
  if (count > kMaxPeers) {
    return absl::UnimplementedError(absl::StrCat(
        count, " ranks on GPUs; at most ", kMaxPeers, " are supported"));
  }
  if (kind == CollectivesKind::kNccl) return MakeNcclCollectives(ranks);
  return PushCollectives::Create(device, deadline, ranks, on);
}

absl::Status GpuCollectives::AllReduceAddNorm(
    const AllReduceAddNormParams& params, const Launch& on) {
  BOLE_RETURN_IF_ERROR(CheckReduceWidth(params.width, on.type));
  const size_t row_bytes =
      static_cast<size_t>(params.width) * ElementBytes(on.type);
  const int at_once = RowsThatFit(kSlotBytes, row_bytes);
  for (int first = 0; first < params.rows.max; first += at_once) {
    const int rows = std::min(at_once, params.rows.max - first);
    BOLE_RETURN_IF_ERROR(ReduceRows(params, first, rows, on));
  }
  return absl::OkStatus();
}

absl::Status GpuCollectives::AllGather(RowCount rows,
                                       std::span<const int> widths,
                                       const float* part, float* whole,
                                       const Launch& on) {
  const int width = std::accumulate(widths.begin(), widths.end(), 0);
  const auto own = widths.begin() + rank_.index;
  constexpr int kVector = 4;
  GatherRange range = {
      .part = part,
      .whole = whole,
      .count = rows.count,
      .first_row = 0,
      .num_rows = 0,
      .width = width,
      .own_width = *own,
      .own_first = std::accumulate(widths.begin(), own, 0),
      .are_aligned = std::all_of(widths.begin(), widths.end(),
                                 [](int w) { return w % kVector == 0; })};
  const int at_once =
      RowsThatFit(kWholeBytes, static_cast<size_t>(width) * sizeof(float));
  // `whole` may begin where `part` does and its rows are longer, so the last
  // rows are gathered first.
  for (int end = rows.max; end > 0; end = range.first_row) {
    range.first_row = (end - 1) / at_once * at_once;
    range.num_rows = end - range.first_row;
    BOLE_RETURN_IF_ERROR(GatherRows(range, widths, on));
  }
  return absl::OkStatus();
}

}  // namespace bole::cuda
