// Prefill in chunk form (Eq. 2, 5 and 10 on chains): a kernel that solves every
// chunk's triangular system, and one that carries the states from chunk to
// chunk. They are for bfloat16 heads of 128, on sm_90.
//
// A chunk consists of the rows of a request between two multiples of 64 of the
// absolute position. Everything that does not depend on the state is stored in
// one record for each chunk and value head, in the layout that the tensor cores
// read.
#ifndef BOLE_KERNELS_CUDA_PREFILL_GDN_CHUNKS_H_
#define BOLE_KERNELS_CUDA_PREFILL_GDN_CHUNKS_H_

#include <cuda_bf16.h>

#include <cstddef>

#include "absl/status/status.h"
#include "kernels/cuda/operators.h"
#include "kernels/gdn.h"

namespace bole::cuda {

inline constexpr int kChunkRows = 64;

// Rows that the chunk does not have are zero. Matrices are in the swizzled
// layout of tiles (chunk_tiles.cuh). Each is the sum of two bfloat16 matrices,
// of which the second holds the rounding errors of the first.
struct ChunkRecord {
  static constexpr int kMatrix = kChunkRows * kChunkRows;

  __nv_bfloat16 x_high[kMatrix];  // X - I, X = (I + G)^-1.
  __nv_bfloat16 x_low[kMatrix];
  __nv_bfloat16 c_high[kMatrix];  // C, the diagonal included.
  __nv_bfloat16 c_low[kMatrix];
  float beta[kChunkRows];
  float key_factor[kChunkRows];    // beta_i |k_i|^-1 exp(Gamma_i)
  float query_factor[kChunkRows];  // Scale of q_i times exp(Gamma_i).
  float write_factor[kChunkRows];  // |k_j|^-1 exp(Gamma_end - Gamma_j)
  float decay;                     // exp(Gamma_end)
  float padding[3];
};
static_assert(sizeof(ChunkRecord) % 16 == 0);

// The records that `rows` rows of `requests` requests may need for each head: a
// request's rows are divided into at most rows / 64 + 2 chunks.
constexpr int MaxChunks(int rows, int requests) {
  return rows / kChunkRows + 2 * requests;
}

// Fills records[chunk, head].
absl::Status ComputeChunkFactors(const GdnCoreParams& params,
                                 ChunkRecord* records, const Launch& on);

// Reads the records, writes `out` and advances the states.
absl::Status ScanChunks(const GdnCoreParams& params, const ChunkRecord* records,
                        const Launch& on);

// Whether GdnPrefill() runs these two kernels, which are compiled for sm_90a
// only, rather than row after row.
bool PrefillsInChunks(const GdnShape& shape, const Launch& on);

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_PREFILL_GDN_CHUNKS_H_
