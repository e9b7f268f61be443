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

// Launches these products on a GPU.
class StreamedProducts {
 public:
  // Creates it for the current GPU.
  static absl::StatusOr<std::unique_ptr<StreamedProducts>> Create();

  // For a GPU with so many multiprocessors. `wide` has the products of many
  // rows on sm_90; it is empty elsewhere.
  StreamedProducts(int multiprocessors, const std::optional<WideProducts>& wide)
      : multiprocessors_(multiprocessors), wide_(wide) {}

  // The fastest way, by the shape alone. For a gated product, its SiluMul is
  // included.
  ProductWay Choose(const Product& product, ElementType type) const;

  // Whether the kernels can run this product on this GPU: bf16, 1 to 64 rows, a
  // multiple of 8 columns, sm_90. If it is gated, up to 8 rows, or 33 or more
  // with a multiple of 8 outputs and not too many of them.
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
  // Like Takes(), but without the conditions for gated products.
  bool Fits(const Product& product, ElementType type) const;

  const int multiprocessors_;
  const std::optional<WideProducts> wide_;
};

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_PRODUCTS_STREAMED_PRODUCTS_H_
