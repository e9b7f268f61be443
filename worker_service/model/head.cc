#include "worker_service/model/head.h"

#include <algorithm>
#include <numeric>

namespace bole {

int Head::columns() const {
  return std::accumulate(rows.begin(), rows.end(), 0);
}

int Head::most_rows() const {
  return *std::max_element(rows.begin(), rows.end());
}

absl::Status ComputeLogits(const Head& head, RowCount rows,
                           const Activation* hidden, float* logits,
                           OperatorSet& operators) {
  return operators.MatMul({.rows = rows,
                           .x = hidden,
                           .weight = head.matrix,
                           .out = nullptr,
                           .out_float = logits,
                           .accumulate = false});
}

absl::Status GatherLogits(const Head& head, RowCount rows, float* logits,
                          OperatorSet& operators) {
  if (head.rows.size() == 1) return absl::OkStatus();
  return operators.AllGather(
      {.rows = rows, .widths = head.rows, .values = logits});
}

}  // namespace bole
