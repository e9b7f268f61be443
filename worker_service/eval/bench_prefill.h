// Times the prefill of one long prompt, and the matrix products that it is
// compared with.
#ifndef BOLE_WORKER_SERVICE_EVAL_BENCH_PREFILL_H_
#define BOLE_WORKER_SERVICE_EVAL_BENCH_PREFILL_H_

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "worker_service/loading/loaded_model.h"

namespace bole {

// Seconds to run a prompt of `tokens` tokens through the target, `chunk` at a
// time, on an engine of its own: the best of three runs after a warm-up run.
absl::StatusOr<double> PrefillSeconds(const LoadedModel& model,
                                      Backend& backend, int tokens, int chunk);

// Multiply-adds per second of the backend when it multiplies `rows` rows by
// square matrices of `rows` rows.
absl::StatusOr<double> MatrixRate(Backend& backend, int rows);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_EVAL_BENCH_PREFILL_H_
