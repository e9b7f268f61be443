// Computes how a chunk's rows depend on each other: (I + G)^-1, C and the
// decays, for all chunks at the same time (Eq. 5). There is one block, of one
// warpgroup, for each chunk and key head; the value heads that read the key
// head share its products.
#include <cstdint>

#include "kernels/cuda/bf16x8.cuh"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/gdn/gdn_views.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/prefill/chunk_products.cuh"
#include "kernels/cuda/prefill/chunk_tiles.cuh"
#include "kernels/cuda/prefill/gdn_chunks.cuh"
#include "kernels/cuda/prefill/gdn_chunks.h"
#include "kernels/cuda/prefill/unit_lower_inverse.cuh"
#include "kernels/cuda/wgmma.cuh"

namespace bole::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kHalfBytes = kChunkRows * kTileRowBytes;  // 64 of the columns.

struct ChunkAt {
  int first_row;
  int count;  // 0: no chunk has this number.
};

// One head's coefficients of the rows. Gamma is stored as a sum of two floats,
// so that differences after a strong decay stay accurate.
struct RowGates {
  float gamma_high[kChunkRows];
  float gamma_low[kChunkRows];
  float beta[kChunkRows];
  float k_scale[kChunkRows];
  float q_scale[kChunkRows];
};

struct Workspace {
  // The tiles of keys and queries are read before the matrices are written.
  union alignas(1024) {
    struct {
      unsigned char keys[2][kHalfBytes];
      unsigned char queries[2][kHalfBytes];
    } tiles;
    struct {
      float minus_g[kChunkRows * kInverseRow];
      float inverse[kChunkRows * kInverseRow];
    } solve;
  };
  alignas(16) ChunkRecord record;
  RowGates gates;
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

constexpr int kDim = 128;

// exp(Gamma_i - Gamma_j) for j <= i. The argument x is not positive, so the
// error of the fast exponential is at most about 2^-24 (2 - x).
__device__ float Decay(const RowGates& gates, int i, int j) {
  return __expf((gates.gamma_high[i] - gates.gamma_high[j]) +
                (gates.gamma_low[i] - gates.gamma_low[j]));
}

// Finds the chunk with this number by a search over the requests, which each
// warp does by itself.
__device__ ChunkAt FindChunk(const RowBatch& batch, int number) {
  for (int first = 0; first < batch.max_requests; first += 32) {
    const int request = first + static_cast<int>(threadIdx.x % 32);
    ChunkAt chunk = {.first_row = 0, .count = 0};
    if (request < batch.max_requests) {
      const ChunkRange range = ChunkRange::Of(batch, request);
      const int i = number - range.first_number;
      if (i >= 0) {
        chunk = {.first_row = range.first_row_of(i), .count = range.rows_of(i)};
      }
    }
    const unsigned found = __ballot_sync(0xffffffffu, chunk.count > 0);
    if (found == 0) continue;
    const int lane = __ffs(static_cast<int>(found)) - 1;
    return {.first_row = __shfl_sync(0xffffffffu, chunk.first_row, lane),
            .count = __shfl_sync(0xffffffffu, chunk.count, lane)};
  }
  return {.first_row = 0, .count = 0};
}

// Loads the rows of a key head, with zeros after the last one.
__device__ void LoadTiles(const GdnCoreParams& p, const ChunkAt& chunk,
                          int key_head, Workspace& w) {
  const FactorRows<BFloat16> factors(p.shape, p.factors, p.layer);
  const int vector = static_cast<int>(threadIdx.x) % 8;
  for (int i = static_cast<int>(threadIdx.x) / 8; i < kChunkRows;
       i += kThreads / 8) {
    const bool is_there = i < chunk.count;
    const int row = chunk.first_row + (is_there ? i : 0);
    const BFloat16* k = factors.k(row, key_head) + vector * kVector;
    const BFloat16* q =
        As<BFloat16>(p.q) +
        (static_cast<int64_t>(row) * p.shape.key_heads + key_head) * kDim +
        vector * kVector;
    const int at = TileOffset(i, vector);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      CopyVectorAsync(SharedBytes(w.tiles.keys[half]) + at, k + half * 64,
                      is_there);
      CopyVectorAsync(SharedBytes(w.tiles.queries[half]) + at, q + half * 64,
                      is_there);
    }
  }
}

// What a thread loads for its row before it is used; zeros if there is no row.
struct OwnGates {
  float beta = 0;
  float log_decay = 0;
  float log_decay_before = 0;  // The log_decay 32 rows earlier.
  float k_scale = 0;
  float q_scale = 0;

  __device__ static OwnGates Load(const GdnCoreParams& p, const ChunkAt& chunk,
                                  int head) {
    OwnGates own;
    const int i = static_cast<int>(threadIdx.x);
    if (i >= kChunkRows) return own;
    const FactorRows<BFloat16> factors(p.shape, p.factors, p.layer);
    const int row = chunk.first_row + i;
    if (i >= 32 && i - 32 < chunk.count) {
      own.log_decay_before = factors.log_decay(row - 32, head);
    }
    if (i >= chunk.count) return own;
    const int key_head = KeyHead(p.shape, head);
    own.beta = factors.beta(row, head);
    own.log_decay = factors.log_decay(row, head);
    own.k_scale = factors.k_scale(row, key_head);
    own.q_scale =
        p.q_scale[static_cast<int64_t>(row) * p.shape.key_heads + key_head];
    return own;
  }
};

// Called by the first two warps, with a row for each thread. Sums are in
// double. The second warp adds up the first one's rows by itself.
__device__ void StoreGates(const OwnGates& own, RowGates& gates) {
  const int i = static_cast<int>(threadIdx.x);
  double through = own.log_decay;
  double first_half = own.log_decay_before;
  for (int offset = 1; offset < 32; offset *= 2) {
    const double before = __shfl_up_sync(0xffffffffu, through, offset);
    first_half += __shfl_xor_sync(0xffffffffu, first_half, offset);
    if (i % 32 >= offset) through += before;
  }
  through += first_half;
  const float high = static_cast<float>(through);
  gates.gamma_high[i] = high;
  gates.gamma_low[i] = static_cast<float>(through - high);
  gates.beta[i] = own.beta;
  gates.k_scale[i] = own.k_scale;
  gates.q_scale[i] = own.q_scale;
}

// Stores two neighbouring elements of a matrix of the record, as high and low
// parts.
__device__ void StorePair(__nv_bfloat16* high, __nv_bfloat16* low, int row,
                          int column, const float (&x)[2]) {
  const int at = TileOffset(row, column / kVector) + column % kVector * 2;
  const uint32_t rounded = PackTwo(x[0], x[1]);
  *reinterpret_cast<uint32_t*>(reinterpret_cast<char*>(high) + at) = rounded;
  *reinterpret_cast<uint32_t*>(reinterpret_cast<char*>(low) + at) =
      PackTwo(x[0] - FirstOfTwo(rounded), x[1] - SecondOfTwo(rounded));
}

// -G_ij = -beta_i exp(Gamma_i - Gamma_j) k_i k_j for j < i, and
// C_ij = exp(Gamma_i - Gamma_j) q_i k_j for j <= i, from the products of raw
// keys and queries.
__device__ void BuildMatrices(const float (&kk)[32], const float (&qk)[32],
                              Workspace& w) {
  const int warp = static_cast<int>(threadIdx.x / 32);
  const int lane = static_cast<int>(threadIdx.x % 32);
  const RowGates& gates = w.gates;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int i = 16 * warp + lane / 4 + 8 * h;
    const float g_scale = -gates.beta[i] * gates.k_scale[i];
    const float c_scale = gates.q_scale[i];
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      // Nothing is written above the diagonal blocks of 16, where elements are
      // already zero or not read.
      if (n > 2 * warp + 1) continue;
      const int first = 8 * n + lane % 4 * 2;
      float g[2];
      float c[2];
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int j = first + e;
        const float decay =
            j <= i ? gates.k_scale[j] * Decay(gates, i, j) : 0.0f;
        const int at = 4 * n + 2 * h + e;
        g[e] = j < i ? g_scale * decay * kk[at] : 0.0f;
        c[e] = j <= i ? c_scale * decay * qk[at] : 0.0f;
      }
      *reinterpret_cast<float2*>(w.solve.minus_g + i * kInverseRow + first) =
          make_float2(g[0], g[1]);
      StorePair(w.record.c_high, w.record.c_low, i, first, c);
    }
  }
}

__device__ void StoreCoefficients(Workspace& w) {
  const int i = static_cast<int>(threadIdx.x);
  if (i >= kChunkRows) return;
  const RowGates& gates = w.gates;
  constexpr int kEnd = kChunkRows - 1;
  const float decay = expf(gates.gamma_high[i]);
  w.record.beta[i] = gates.beta[i];
  w.record.key_factor[i] = gates.beta[i] * gates.k_scale[i] * decay;
  w.record.query_factor[i] = gates.q_scale[i] * decay;
  w.record.write_factor[i] = gates.k_scale[i] * Decay(gates, kEnd, i);
  if (i == kEnd) w.record.decay = decay;
}

// Stores X - I, from the inverse. A warp stores 16 rows up to their diagonal
// block.
__device__ void StoreInverse(Workspace& w) {
  const int warp = static_cast<int>(threadIdx.x / 32);
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int i = 16 * warp + lane / 2;
  for (int j = lane % 2 * kVector; j < 16 * (warp + 1); j += 2 * kVector) {
    const float* x = w.solve.inverse + i * kInverseRow + j;
#pragma unroll
    for (int c = 0; c < kVector; c += 2) {
      const float2 pair = *reinterpret_cast<const float2*>(x + c);
      const float below[2] = {j + c < i ? pair.x : 0.0f,
                              j + c + 1 < i ? pair.y : 0.0f};
      StorePair(w.record.x_high, w.record.x_low, i, j + c, below);
    }
  }
}

__device__ void ClearMatrices(ChunkRecord& record) {
  constexpr int kVectors = 4 * sizeof(record.x_high) / sizeof(uint4);
  auto* vectors = reinterpret_cast<uint4*>(record.x_high);
  for (int i = static_cast<int>(threadIdx.x); i < kVectors; i += kThreads) {
    vectors[i] = make_uint4(0, 0, 0, 0);
  }
}

__device__ void WaitForTiles() {
  asm volatile("cp.async.wait_all;" ::: "memory");
  FenceShared();
  __syncthreads();
}

// Computes the products of every key and every query with every key.
__device__ void MultiplyRows(const Workspace& w, float (&kk)[32],
                             float (&qk)[32]) {
  WgmmaFence();
#pragma unroll
  for (int half = 0; half < 2; ++half) {
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      const int skip = step * 32;
      const uint64_t k = WgmmaOperand(SharedBytes(w.tiles.keys[half]) + skip);
      const uint64_t q =
          WgmmaOperand(SharedBytes(w.tiles.queries[half]) + skip);
      const bool add = half > 0 || step > 0;
      Wgmma64(kk, k, k, add);
      Wgmma64(qk, q, k, add);
    }
  }
  WgmmaCommit();
  WgmmaWait<0>();
}

__device__ void CopyRecord(const ChunkRecord& from, ChunkRecord* to) {
  asm volatile(
      "cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\n"
      "cp.async.bulk.commit_group;\n" ::"l"(to),
      "r"(SharedBytes(&from)), "n"(sizeof(ChunkRecord))
      : "memory");
}

__device__ void FactorChunk(const GdnCoreParams& p, const ChunkAt& chunk,
                            ChunkRecord* records, Workspace& w) {
  const int key_head = blockIdx.x;
  const int group = p.shape.value_heads / p.shape.key_heads;
  LoadTiles(p, chunk, key_head, w);
  OwnGates own = OwnGates::Load(p, chunk, key_head * group);
  ClearMatrices(w.record);
  WaitForTiles();
  float kk[32];
  float qk[32];
  MultiplyRows(w, kk, qk);
  for (int i = 0; i < group; ++i) {
    const int head = key_head * group + i;
    if (threadIdx.x < kChunkRows) StoreGates(own, w.gates);
    if (threadIdx.x == 0) {
      asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    }
    // The gates have been written, and the tiles and the previous record have
    // been read.
    __syncthreads();
    if (i + 1 < group) own = OwnGates::Load(p, chunk, head + 1);
    BuildMatrices(kk, qk, w);
    StoreCoefficients(w);
    __syncthreads();
    InvertUnitLower(w.solve.minus_g, w.solve.inverse);
    __syncthreads();
    StoreInverse(w);
    FenceShared();
    __syncthreads();
    if (threadIdx.x == 0) CopyRecord(w.record, records + head);
  }
  if (threadIdx.x == 0) {
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  }
}

#endif

// Grid: key heads, numbers of chunks.
__global__ void __launch_bounds__(kThreads)
    ChunkFactorsKernel(const __grid_constant__ GdnCoreParams p,
                       ChunkRecord* records) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(1024) unsigned char memory[];
  WaitForPrevious();
  StartNext();
  const int number = static_cast<int>(blockIdx.y);
  const ChunkAt chunk = FindChunk(p.batch, number);
  if (chunk.count == 0) return;
  FactorChunk(p, chunk,
              records + static_cast<int64_t>(number) * p.shape.value_heads,
              *reinterpret_cast<Workspace*>(memory));
#endif
}

}  // namespace

absl::Status ComputeChunkFactors(const GdnCoreParams& params,
                                 ChunkRecord* records, const Launch& on) {
  const absl::Status allowed =
      ToStatus(cudaFuncSetAttribute(ChunkFactorsKernel,
                                    cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    sizeof(Workspace)),
               "GdnPrefill, shared memory");
  if (!allowed.ok()) return allowed;
  const dim3 grid(params.shape.key_heads,
                  MaxChunks(params.batch.rows.max, params.batch.max_requests));
  return LaunchDependent(
      "GdnPrefill, factors", ChunkFactorsKernel,
      {.grid = grid, .block = kThreads, .shared_bytes = sizeof(Workspace)}, on,
      params, records);
}

}  // namespace bole::cuda
