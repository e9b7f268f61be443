// Products of 33 to 64 rows by the kernels of wide_product.h.
#ifndef BOLE_KERNELS_CUDA_PRODUCTS_WIDE_PRODUCTS_H_
#define BOLE_KERNELS_CUDA_PRODUCTS_WIDE_PRODUCTS_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/operators.h"
#include "kernels/cuda/products/product.h"
#include "kernels/cuda/products/wide_product.h"

namespace bole::cuda {

// What there is to know of the current GPU to launch them.
class WideProducts {
 public:
  // REQUIRES: sm_90.
  static absl::StatusOr<WideProducts> Create();

  // REQUIRES: bf16, 1 to kMaxWideRows rows, columns in eights; CanGate() if
  // the product is gated.
  absl::Status Run(const Product& product, const Launch& on) const;

  // Whether there is a kernel for a gated product, by the shape.
  bool CanGate(const Product& product) const;

  // Whether they are faster than cuBLASLt, with SiluMul if the product is
  // gated, by the shape.
  bool IsFaster(const Product& product) const;

 private:
  WideProducts(int singles, int pairs) : singles_(singles), pairs_(pairs) {}

  WidePlan PlanFor(const Product& product) const;

  // How many blocks, and how many clusters of two, run at a time.
  int singles_;
  int pairs_;
};

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_PRODUCTS_WIDE_PRODUCTS_H_
