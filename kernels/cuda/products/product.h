// The parameters of a matrix product.
#ifndef BOLE_KERNELS_CUDA_PRODUCTS_PRODUCT_H_
#define BOLE_KERNELS_CUDA_PRODUCTS_PRODUCT_H_

#include <cstdint>

namespace bole::cuda {

// out = x W^T, or out += x W^T. Rows of out at or beyond *count may be written
// or not, and mean nothing.
struct Product {
  int num_rows;          // N
  const int32_t* count;  // [1], device; the rows that are wanted.
  int rows;     // Rows of W: columns of out, or twice as many if gated.
  int columns;  // Columns of W and x.
  const void* x;
  const void* weight;
  void* out;
  bool float_out;   // Out is float32, whatever the elements.
  bool accumulate;  // Add to out.
  // out = silu(x G^T) * (x U^T), where W is G above U.
  bool gated = false;
};

// Two products and a norm between them: x of `behind` is the norm of out of
// `ahead`. Afterwards x of `behind` is unspecified. The counts are read while
// the previous operator may still run, so it must not write them.
struct ProductPair {
  Product ahead;
  const float* norm_weight;  // [rows of ahead]
  float epsilon;
  Product behind;
};

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_PRODUCTS_PRODUCT_H_
