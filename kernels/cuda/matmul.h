// Matrix products through cuBLASLt.
#ifndef BOLE_KERNELS_CUDA_MATMUL_H_
#define BOLE_KERNELS_CUDA_MATMUL_H_

#include <map>
#include <memory>
#include <tuple>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cublasLt.h"
#include "kernels/cuda/cublas_lt.h"
#include "kernels/cuda/operators.h"
#include "kernels/tensor.h"

namespace bole::cuda {

// A weight matrix on the device: [rows, columns] elements, row-major.
struct DeviceMatrix final : WeightMatrix {
  DeviceMatrix(int num_rows, int num_columns, void* memory)
      : WeightMatrix(num_rows, num_columns), data(memory) {}
  ~DeviceMatrix() override;

  void* const data;  // Owned.
};

// One product: out = x W^T, or out += x W^T.
struct Product {
  int num_rows;  // N
  int rows;      // Of W: columns of out.
  int columns;   // Of W and x.
  const void* x;
  const void* weight;
  void* out;
  bool float_out;   // Out is float32, whatever the elements.
  bool accumulate;  // Add to out.
};

// Chooses an algorithm once for every shape, and allocates nothing after the
// constructor but what cuBLASLt keeps for itself. One thread at a time.
class MatMuls {
 public:
  static absl::StatusOr<std::unique_ptr<MatMuls>> Create();
  ~MatMuls();

  MatMuls(const MatMuls&) = delete;
  MatMuls& operator=(const MatMuls&) = delete;

  absl::Status Run(const Product& product, const Launch& on);

 private:
  struct Plan;
  // N, rows, columns, float_out, type.
  using Key = std::tuple<int, int, int, bool, ElementType>;

  MatMuls(const CublasLt& lt, cublasLtHandle_t handle, void* workspace);
  absl::StatusOr<const Plan*> PlanFor(const Product& product, ElementType type);

  const CublasLt& lt_;
  cublasLtHandle_t handle_;
  void* workspace_;
  std::map<Key, std::unique_ptr<Plan>> plans_;
};

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_MATMUL_H_
