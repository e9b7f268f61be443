#include "kernels/reference/collectives.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <span>
#include <vector>

#include "common/status_macros.h"
#include "kernels/reference/activations.h"
#include "kernels/reference/dense.h"

namespace bole::reference {

absl::Status AllReduceAddNorm(const AllReduceAddNormParams& p,
                              Communicator* ranks) {
  const size_t count = static_cast<size_t>(*p.rows.count) * p.width;
  const std::span<const float> partial(Floats(p.partial), count);
  std::vector<float> sum(partial.begin(), partial.end());
  if (ranks != nullptr) BOLE_RETURN_IF_ERROR(ranks->AllReduce(partial, sum));
  float* const residual = Floats(p.residual);
  for (size_t i = 0; i < count; ++i) residual[i] += sum[i];
  RmsNorm({.rows = p.rows,
           .width = p.width,
           .epsilon = p.epsilon,
           .x = p.residual,
           .weight = p.weight,
           .out = p.out,
           .out_stride = p.width,
           .out_column = 0});
  return absl::OkStatus();
}

absl::StatusOr<std::vector<float>> WholeRows(RowCount rows,
                                             std::span<const int> widths,
                                             const float* part,
                                             Communicator& ranks) {
  const auto count = static_cast<size_t>(*rows.count);
  const auto width =
      static_cast<size_t>(std::accumulate(widths.begin(), widths.end(), 0));
  const auto own = static_cast<size_t>(widths[ranks.rank().index]);
  std::vector<float> parts(count * width);  // By rank, each [N, its width].
  BOLE_RETURN_IF_ERROR(
      ranks.AllGather(std::as_bytes(std::span(part, count * own)),
                      std::as_writable_bytes(std::span(parts))));
  std::vector<float> whole(parts.size());
  const float* from = parts.data();
  size_t column = 0;
  for (const int of_rank : widths) {
    for (size_t i = 0; i < count; ++i) {
      std::copy_n(from, of_rank, whole.data() + i * width + column);
      from += of_rank;
    }
    column += static_cast<size_t>(of_rank);
  }
  return whole;
}

absl::Status AllGather(const AllGatherParams& p, Communicator* ranks) {
  if (ranks == nullptr) return absl::OkStatus();
  BOLE_ASSIGN_OR_RETURN(const std::vector<float> whole,
                        WholeRows(p.rows, p.widths, p.values, *ranks));
  std::copy(whole.begin(), whole.end(), p.values);
  return absl::OkStatus();
}

}  // namespace bole::reference
