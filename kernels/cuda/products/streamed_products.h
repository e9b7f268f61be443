// Products of up to 64 rows by the kernels of stream_product.h and
// wide_product.h.
#ifndef BOLE_KERNELS_CUDA_PRODUCTS_STREAMED_PRODUCTS_H_
#define BOLE_KERNELS_CUDA_PRODUCTS_STREAMED_PRODUCTS_H_

#include <cstddef>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/operators.h"
#include "kernels/cuda/products/product.h"
#include "kernels/cuda/products/wide_products.h"

namespace bole::cuda {

// How a product is computed.
enum class ProductWay {
  kStreamed,  // stream_product.h
  kWide,      // wide_product.h
  kLibrary,   // cuBLASLt
};

// What there is to know of a GPU to launch them.
class StreamedProducts {
 public:
  // Creates it for the current GPU.
  static absl::StatusOr<std::unique_ptr<StreamedProducts>> Create();

  // For a GPU with so many multiprocessors. `wide` has the products of many
  // rows on sm_90; it is empty elsewhere.
  StreamedProducts(int multiprocessors, const std::optional<WideProducts>& wide)
      : multiprocessors_(multiprocessors), wide_(wide) {}

  // The fastest way, for a gated product with its SiluMul: a function of the
  // shape.
  ProductWay Choose(const Product& product, ElementType type) const;

  // Whether the kernels can run this product on this GPU: bf16, 1 to 64 rows,
  // columns in eights, sm_90; if it is gated, 33 rows or more, outputs in
  // eights, and not too many of them.
  bool Takes(const Product& product, ElementType type) const;
  // REQUIRES: Takes().
  absl::Status Run(const Product& product, const Launch& on) const;

  // Whether RunPair() can run these on this GPU, and is faster than the
  // operators one by one.
  bool TakePair(const ProductPair& pair, ElementType type) const;
  // How much scratch RunPair() needs, in bytes.
  size_t PairScratchBytes(const ProductPair& pair) const;
  // REQUIRES: TakePair().
  absl::Status RunPair(const ProductPair& pair, void* scratch,
                       const Launch& on) const;

 private:
  // As Takes(), whether the product is gated or not.
  bool Fits(const Product& product, ElementType type) const;

  const int multiprocessors_;
  const std::optional<WideProducts> wide_;
};

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_PRODUCTS_STREAMED_PRODUCTS_H_
