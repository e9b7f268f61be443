#include "worker_service/model/head.h"

#include <numeric>

#include "common/status_macros.h"

namespace bole {

int Head::columns() const {
  return std::accumulate(rows.begin(), rows.end(), 0);
}

absl::Status ComputeLogits(const Head& head, RowCount rows,
                           const Activation* hidden, float* logits,
                           Backend& backend) {
  BOLE_RETURN_IF_ERROR(backend.MatMul({.rows = rows,
                                       .x = hidden,
                                       .weight = head.matrix,
                                       .out = nullptr,
                                       .out_float = logits,
                                       .accumulate = false}));
  if (head.rows.size() == 1) return absl::OkStatus();
  return backend.AllGather(
      {.rows = rows, .widths = head.rows, .values = logits});
}

}  // namespace bole
