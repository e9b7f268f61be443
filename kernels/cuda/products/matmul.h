// Matrix products: those of few rows run on our own kernels, others through
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
// constructor except what cuBLASLt keeps for itself. Used by one thread at a
// time, on one stream.
class MatMuls {
 public:
  static absl::StatusOr<std::unique_ptr<MatMuls>> Create();
  ~MatMuls();

  MatMuls(const MatMuls&) = delete;
  MatMuls& operator=(const MatMuls&) = delete;

  // Runs the product in the way that is faster for its shape. REQUIRES:
  // TakeGated() if it is gated.
  absl::Status Run(const Product& product, const Launch& on);

  // Whether a gated product is faster as one than the product and its gate one
  // by one.
  bool TakeGated(const Product& product, ElementType type) const {
    return streamed_->Choose(product, type) != ProductWay::kLibrary;
  }

  // Whether two products with a norm between them are faster as a pair than one
  // by one.
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

  // These run a product in one given way, for comparisons. RunStreamed() is
  // UNIMPLEMENTED where CanStream() is false. REQUIRES of RunLibrary(): the
  // product is not gated.
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
