// Locates the chunks of a batch.
#ifndef BOLE_KERNELS_CUDA_PREFILL_GDN_CHUNKS_CUH_
#define BOLE_KERNELS_CUDA_PREFILL_GDN_CHUNKS_CUH_

#include <cstdint>

#include "kernels/cuda/prefill/gdn_chunks.h"
#include "kernels/row_batch.h"

namespace bole::cuda {

// The chunks of one request. Their numbers are consecutive and differ from
// those of other requests, because MaxChunks() numbers are reserved for the
// rows and requests before it.
struct ChunkRange {
  int first_row;
  int end_row;
  int first_position;  // The position of first_row.
  int first_number;

  __device__ static ChunkRange Of(const RowBatch& batch, int request) {
    const int first_row = batch.first_row[request];
    return {.first_row = first_row,
            .end_row = batch.first_row[request + 1],
            .first_position = batch.committed[request],
            .first_number = first_row / kChunkRows + 2 * request};
  }

  // Rows of the request before its chunk i.
  __device__ int Before(int i) const {
    return i == 0 ? 0 : i * kChunkRows - first_position % kChunkRows;
  }
  __device__ int first_row_of(int i) const { return first_row + Before(i); }
  // The number of rows of chunk i. If it is not positive, there is no such
  // chunk.
  __device__ int rows_of(int i) const {
    return min(Before(i + 1), end_row - first_row) - Before(i);
  }
};

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_PREFILL_GDN_CHUNKS_CUH_
