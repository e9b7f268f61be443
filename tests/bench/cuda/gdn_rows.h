// Random operands of whole linear layers on the GPU, front to gated norm, for
// benchmarks.
#ifndef BOLE_TESTS_BENCH_CUDA_GDN_ROWS_H_
#define BOLE_TESTS_BENCH_CUDA_GDN_ROWS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/gdn.h"
#include "worker_service/model/device_arrays.h"

namespace bole::cuda {

struct GdnRowsOptions {
  GdnShape shape;
  int num_requests;  // B
  int num_rows;      // T, of every request.
  bool chains;       // A chain each, not a drafted tree.
  int num_layers;    // L
};

// Operands of L layers, each with its own.
class GdnRows {
 public:
  // `backend` must outlive the object.
  static absl::StatusOr<std::unique_ptr<GdnRows>> Create(
      CudaBackend& backend, const GdnRowsOptions& options);

  GdnConvParams Conv(int layer) const;
  GdnCoreParams Core(int layer) const;
  GdnCommitParams Windows(int layer) const;
  GdnGatedNormParams GatedNorm(int layer) const;

  // Bytes that an operator must read and write in one layer.
  static int64_t ConvBytes(const GdnRowsOptions& options);
  static int64_t GatedNormBytes(const GdnRowsOptions& options);
  static int64_t WindowBytes(const GdnRowsOptions& options);
  // Decode or prefill: the states twice, the rows' operands, the output.
  static int64_t CoreBytes(const GdnRowsOptions& options);

 private:
  GdnRows(CudaBackend& backend, const GdnRowsOptions& options);
  absl::Status Fill(CudaBackend& backend);

  GdnRowsOptions options_;
  DeviceArrays arrays_;
  std::vector<DeviceMemory> random_;
  RowBatch batch_ = {};
  RowPath path_ = {};  // All rows.
  GdnStates states_ = {};
  GdnFactors factors_ = {};
  Activation* projected_ = nullptr;  // [L, N, projected_width]
  Activation* q_ = nullptr;          // [L, N, Hk, dk]
  Activation* out_ = nullptr;        // [L, N, Hv, dv]
  float* q_scale_ = nullptr;         // [N, Hk]
  const float* conv_weight_ = nullptr;
  const float* head_weight_ = nullptr;  // [128] of each kind.
};

}  // namespace bole::cuda

#endif  // BOLE_TESTS_BENCH_CUDA_GDN_ROWS_H_
