// Matrices of 7-bit integers, and products of few rows with them by the kernels
// of int7_product.h.
#ifndef BOLE_KERNELS_CUDA_PRODUCTS_INT7_PRODUCTS_H_
#define BOLE_KERNELS_CUDA_PRODUCTS_INT7_PRODUCTS_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/operators.h"
#include "kernels/cuda/products/int7_matrix.h"
#include "kernels/cuda/products/matmul.h"
#include "kernels/cuda/products/product.h"

namespace bole::cuda {

// The matrix whose Int7Bytes() bytes begin at `data`.
inline Int7Matrix Int7MatrixAt(void* data, int rows, int columns) {
  auto* bytes = static_cast<uint8_t*>(data);
  return {
      .rows = rows,
      .columns = columns,
      .data = bytes,
      .scale = reinterpret_cast<float*>(bytes + Int7DataBytes(rows, columns))};
}

// Launches these products on the current GPU.
class Int7Products {
 public:
  static absl::StatusOr<std::unique_ptr<Int7Products>> Create();

  // Replaces the elements of `matrix` by the values that their 7-bit integers
  // stand for, and keeps the integers if there are kernels for products with
  // them. INVALID_ARGUMENT names a row that has an element that is not finite.
  // Waits for the GPU.
  absl::Status Quantize(DeviceMatrix& matrix, const Launch& on) const;

  // Whether the kernels can run this product on this GPU: bf16, 1 to 16 rows, a
  // multiple of 32 columns, sm_90.
  bool Takes(const Product& product, ElementType type) const;
  // product.weight is as Int7MatrixAt() reads it. REQUIRES: Takes().
  absl::Status Run(const Product& product, const Launch& on) const;

 private:
  Int7Products(int multiprocessors, bool supported)
      : multiprocessors_(multiprocessors), supported_(supported) {}
  bool HasColumns(int columns, ElementType type) const;

  const int multiprocessors_;
  const bool supported_;
};

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_PRODUCTS_INT7_PRODUCTS_H_
