// Products of 33 to 64 rows by the kernels of wide_product.h.
#ifndef BOLE_KERNELS_CUDA_PRODUCTS_WIDE_PRODUCTS_H_
#define BOLE_KERNELS_CUDA_PRODUCTS_WIDE_PRODUCTS_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/operators.h"
#include "kernels/cuda/products/product.h"
#include "kernels/cuda/products/wide_product.h"

namespace bole::cuda {

// What there is to know of a GPU to launch them.
class WideProducts {
 public:
  // For the current GPU. REQUIRES: sm_90.
  static absl::StatusOr<WideProducts> Create();

  // For a GPU that runs so many blocks, or so many clusters of two, at a time.
  WideProducts(int singles, int pairs) : singles_(singles), pairs_(pairs) {}

  // REQUIRES: bf16, 1 to kMaxWideRows rows, columns in eights; CanGate() if
  // the product is gated.
  absl::Status Run(const Product& product, const Launch& on) const;

  // Whether there is a kernel for a gated product, by the shape.
  bool CanGate(const Product& product) const;

  // Whether they are faster than cuBLASLt, with SiluMul if the product is
  // gated, by the shape.
  bool IsFaster(const Product& product) const;

 private:
  WidePlan PlanFor(const Product& product) const;

  int singles_;
  int pairs_;
};

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_PRODUCTS_WIDE_PRODUCTS_H_
