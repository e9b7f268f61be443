// How exact the verifiers are.
#ifndef BOLE_TESTS_BENCH_CUDA_GDN_ERRORS_H_
#define BOLE_TESTS_BENCH_CUDA_GDN_ERRORS_H_

#include "absl/status/statusor.h"
#include "kernels/cuda/cuda_backend.h"
#include "nlohmann/json_fwd.hpp"

namespace bole::cuda {

// Prints and returns, for every solver and for random and correlated keys, mild
// and strong decays, shallow and deep trees: the rms error against float64 over
// the rms of the exact values, of outputs (rounding those to bfloat16 costs
// 1.7e-3 by itself) and of the correction U.
absl::StatusOr<nlohmann::ordered_json> MeasureErrors(CudaBackend& backend);

}  // namespace bole::cuda

#endif  // BOLE_TESTS_BENCH_CUDA_GDN_ERRORS_H_
