// Matrix products: of few rows by kernels of our own, of others through
// cuBLASLt.
#ifndef BOLE_KERNELS_CUDA_PRODUCTS_MATMUL_H_
#define BOLE_KERNELS_CUDA_PRODUCTS_MATMUL_H_

#include <cstddef>
#include <map>
#include <memory>
#include <tuple>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cublasLt.h"
#include "kernels/cuda/operators.h"
#include "kernels/cuda/products/cublas_lt.h"
#include "kernels/cuda/products/product.h"
#include "kernels/cuda/products/streamed_products.h"
#include "kernels/tensor.h"

namespace bole::cuda {

// A weight matrix on the device: [rows, columns] elements, row-major.
struct DeviceMatrix final : WeightMatrix {
  DeviceMatrix(int num_rows, int num_columns, void* memory)
      : WeightMatrix(num_rows, num_columns), data(memory) {}
  ~DeviceMatrix() override;

  void* const data;  // Owned.
  // The same elements in integers, as Int7MatrixAt() reads them
  // (int7_products.h), or null. Owned.
  void* int7 = nullptr;
};

// Chooses an algorithm once for every shape, and allocates nothing after the
// constructor but what cuBLASLt keeps for itself. One thread at a time, and one
// stream.
class MatMuls {
 public:
  static absl::StatusOr<std::unique_ptr<MatMuls>> Create();
  ~MatMuls();

  MatMuls(const MatMuls&) = delete;
  MatMuls& operator=(const MatMuls&) = delete;

  // By the faster way for the shape. REQUIRES: TakeGated() if it is gated.
  absl::Status Run(const Product& product, const Launch& on);

  // Gated products, where that is faster than the product and its gate one by
  // one.
  bool TakeGated(const Product& product, ElementType type) const {
    return streamed_->Choose(product, type) != ProductWay::kLibrary;
  }

  // Products with a norm between them, where that is faster than one by one.
  bool TakePair(const ProductPair& pair, ElementType type) const {
    return streamed_->TakePair(pair, type);
  }
  size_t PairScratchBytes(const ProductPair& pair) const {
    return streamed_->PairScratchBytes(pair);
  }
  // scratch: PairScratchBytes(). REQUIRES: TakePair().
  absl::Status RunPair(const ProductPair& pair, void* scratch,
                       const Launch& on) const {
    return streamed_->RunPair(pair, scratch, on);
  }

  // By one of the ways, for comparisons. RunStreamed() is UNIMPLEMENTED where
  // CanStream() is false. REQUIRES of RunLibrary(): the product is not gated.
  bool CanStream(const Product& product, ElementType type) const {
    return streamed_->Takes(product, type);
  }
  absl::Status RunStreamed(const Product& product, const Launch& on);
  absl::Status RunLibrary(const Product& product, const Launch& on);

 private:
  struct Plan;
  // N, rows, columns, float_out, type.
  using Key = std::tuple<int, int, int, bool, ElementType>;

  MatMuls(const CublasLt& lt, cublasLtHandle_t handle, void* workspace,
          std::unique_ptr<StreamedProducts> streamed);
  absl::StatusOr<const Plan*> PlanFor(const Product& product, ElementType type);

  const CublasLt& lt_;
  cublasLtHandle_t handle_;
  void* workspace_;
  std::unique_ptr<StreamedProducts> streamed_;
  std::map<Key, std::unique_ptr<Plan>> plans_;
};

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_PRODUCTS_MATMUL_H_
