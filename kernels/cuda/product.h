// What a matrix product is told.
#ifndef BOLE_KERNELS_CUDA_PRODUCT_H_
#define BOLE_KERNELS_CUDA_PRODUCT_H_

#include <cstdint>

namespace bole::cuda {

// out = x W^T, or out += x W^T. Rows of out at or beyond *count may be written
// or not, and mean nothing.
struct Product {
  int num_rows;          // N
  const int32_t* count;  // [1], device; the rows that are wanted.
  int rows;              // Of W: columns of out.
  int columns;           // Of W and x.
  const void* x;
  const void* weight;
  void* out;
  bool float_out;   // Out is float32, whatever the elements.
  bool accumulate;  // Add to out.
};

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_PRODUCT_H_
