// A single row of x in a product of few rows (stream_product.cu): a block keeps
// its columns of the row in shared memory, after the ring of W. They are loaded
// without the copy engine, which would bring them only after the weights that
// the next kernel's block on the multiprocessor has requested.
#ifndef BOLE_KERNELS_CUDA_PRODUCTS_STREAM_ROW_CUH_
#define BOLE_KERNELS_CUDA_PRODUCTS_STREAM_ROW_CUH_

#include <cstdint>

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/products/stream_product.h"
#include "kernels/cuda/products/stream_ring.cuh"

namespace bole::cuda {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// Called by the threads that multiply, which must synchronise before they read
// the row. Columns beyond the end of x are 0.
__device__ inline void LoadRow(const StreamTask& t, const Share& share,
                               uint32_t to) {
  constexpr int kUnit = 8;  // Elements of 16 bytes.
  const int chunk_columns = t.plan.boxes * kBoxColumns;
  const int first = share.first_chunk * chunk_columns;
  const auto* row = static_cast<const BFloat16*>(t.row);
#pragma unroll 4
  for (int c = kUnit * static_cast<int>(threadIdx.x);
       c < share.num_chunks * chunk_columns; c += kUnit * kConsumers) {
    const bool is_there = first + c < t.columns;
    CopyUnit(is_there ? row + first + c : row, to + c * sizeof(BFloat16),
             is_there ? kUnit * sizeof(BFloat16) : 0);
  }
  WaitForUnits();
  FenceForAsync();
}

#endif

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_PRODUCTS_STREAM_ROW_CUH_
