// Products of 33 to 64 rows by the kernels of wide_product.h.
#ifndef BOLE_KERNELS_CUDA_PRODUCTS_WIDE_PRODUCTS_H_
#define BOLE_KERNELS_CUDA_PRODUCTS_WIDE_PRODUCTS_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/operators.h"
#include "kernels/cuda/products/product.h"
#include "kernels/cuda/products/wide_product.h"

namespace bole::cuda {

// Launches these products on a GPU.
class WideProducts {
 public:
  // For the current GPU. REQUIRES: sm_90.
  static absl::StatusOr<WideProducts> Create();

  // For a GPU that runs `singles` blocks, or `pairs` clusters of two, at a
  // time.
  WideProducts(int singles, int pairs) : singles_(singles), pairs_(pairs) {}

  // REQUIRES: bf16, 1 to kMaxWideRows rows, a multiple of 8 columns; CanGate()
  // if the product is gated.
  absl::Status Run(const Product& product, const Launch& on) const;

  // Whether the kernels can run the gated product, by its shape.
  bool CanGate(const Product& product) const;

  // Whether the kernels are faster than cuBLASLt, or than cuBLASLt and SiluMul
  // if the product is gated, by its shape.
  bool IsFaster(const Product& product) const;

 private:
  WidePlan PlanFor(const Product& product) const;

  int singles_;
  int pairs_;
};

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_PRODUCTS_WIDE_PRODUCTS_H_
