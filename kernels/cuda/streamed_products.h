// Products of few rows by the kernels of stream_product.h.
#ifndef BOLE_KERNELS_CUDA_STREAMED_PRODUCTS_H_
#define BOLE_KERNELS_CUDA_STREAMED_PRODUCTS_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/operators.h"
#include "kernels/cuda/product.h"

namespace bole::cuda {

// What there is to know of the current GPU to launch them.
class StreamedProducts {
 public:
  static absl::StatusOr<std::unique_ptr<StreamedProducts>> Create();

  // Whether the kernels can run this product on this GPU: bf16, 1 to 128 rows,
  // columns in eights, sm_90.
  bool Takes(const Product& product, ElementType type) const;
  // REQUIRES: Takes().
  absl::Status Run(const Product& product, const Launch& on) const;

 private:
  StreamedProducts(int multiprocessors, bool supported)
      : multiprocessors_(multiprocessors), supported_(supported) {}

  const int multiprocessors_;
  const bool supported_;
};

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_STREAMED_PRODUCTS_H_
