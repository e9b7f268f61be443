// Shared memory of a value tile's block (stage 2 of the two-stage
// verification), and what is copied into it.
#ifndef BOLE_KERNELS_CUDA_VERIFY_TWO_STAGE_MEMORY_CUH_
#define BOLE_KERNELS_CUDA_VERIFY_TWO_STAGE_MEMORY_CUH_

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/gdn/gdn_views.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/verify/tree_factors.cuh"
#include "kernels/gdn.h"

namespace bole::cuda {

inline constexpr int kChunkKeys = 16;  // Keys of the state in a chunk.
inline constexpr int kAhead = 4;       // Chunks of the state in flight.
// Strides in shared memory, in elements, padded against bank conflicts.
inline constexpr int kKeyStride = kTreeKeyDim + 16;
inline constexpr int kPadding = 8;

// A warp's rows of the state, loaded a few chunks of keys in advance: every
// lane copies what it reads itself. [chunk][rows 8 i ..][lane]
template <int kTiles>
using StateRing = float4[kAhead][2 * kTiles][32];

// Shared memory of a block for n nodes. C takes the place of q and k once those
// have been read.
template <int kNodes>
struct TileMemory {
  BFloat16* k;      // [n, kKeyStride]
  BFloat16* q;      // [n, kKeyStride]
  float* c;         // [n, n + kPadding]
  float* g;         // [n, n + kPadding] -G
  BFloat16* v;      // [n, columns + kPadding], then out.
  float* beta;      // [n]
  float* k_factor;  // [n] P_i times the scale of k_i,
  float* q_factor;  // [n] and of q_i.
  float4* state;    // A StateRing for each warp.

  static constexpr int kStride = kNodes + kPadding;
  static constexpr size_t kQkBytes = 2 * kNodes * kKeyStride * sizeof(BFloat16);
  static_assert(kNodes * kStride * sizeof(float) <= kQkBytes);

  static size_t Bytes(int columns) {
    return kQkBytes +
           kNodes * (sizeof(float) * (kStride + 3) +
                     sizeof(BFloat16) * (columns + kPadding)) +
           columns / 16 * sizeof(StateRing<1>);
  }
  __device__ TileMemory(unsigned char* memory, int columns)
      : k(reinterpret_cast<BFloat16*>(memory)),
        q(k + kNodes * kKeyStride),
        c(reinterpret_cast<float*>(memory)),
        g(reinterpret_cast<float*>(memory + kQkBytes)),
        v(reinterpret_cast<BFloat16*>(g + kNodes * kStride)),
        beta(reinterpret_cast<float*>(v + kNodes * (columns + kPadding))),
        k_factor(beta + kNodes),
        q_factor(k_factor + kNodes),
        state(reinterpret_cast<float4*>(q_factor + kNodes)) {}
};

// What a block works on.
struct TileWork {
  const GdnCoreParams& p;
  FactorRows<BFloat16> factors;
  int request;
  int head;
  int key_head;
  int columns;       // Columns of the block.
  int first_column;  // The first of them, in the head's values.
  int first;         // Row of node 0.
  int count;         // Nodes.

  // Grid: value tiles, value heads, requests.
  __device__ TileWork(const GdnCoreParams& params, int columns_per_warp)
      : p(params),
        factors(params.shape, params.factors, params.layer),
        request(blockIdx.z),
        head(blockIdx.y),
        key_head(KeyHead(params.shape, head)),
        columns(static_cast<int>(blockDim.x / 32) * columns_per_warp),
        first_column(static_cast<int>(blockIdx.x) * columns),
        first(params.batch.first_row[request]),
        count(params.batch.first_row[request + 1] - first) {}

  __device__ int64_t value_row(int node) const {
    return static_cast<int64_t>(first + node) * p.shape.value_heads + head;
  }
  // The tree's depth: the largest number of strict ancestors of a node.
  __device__ int Depth() const {
    int depth = 0;
    for (int i = threadIdx.x % 32; i < count; i += 32) {
      depth = max(depth, p.batch.depth[first + i]);
    }
    return __reduce_max_sync(0xffffffffu, depth);
  }
};

// Copies `count` rows of kChunks 16-byte chunks into shared memory, and writes
// zeros after them up to kRows rows.
template <int kRows, int kChunks>
struct RowCopy {
  int count;
  int stride_bytes;  // In shared memory.

  // at(i): the address of row i.
  template <typename At>
  __device__ void Run(void* to, const At& at) const {
    for (int i = threadIdx.x; i < kRows * kChunks;
         i += static_cast<int>(blockDim.x)) {
      const int row = i / kChunks;
      const int chunk = i % kChunks;
      const bool valid = row < count;
      const char* from = reinterpret_cast<const char*>(at(valid ? row : 0));
      CopyAsync16(SharedAddress(static_cast<char*>(to) + row * stride_bytes) +
                      16 * chunk,
                  from + 16 * chunk, valid);
    }
  }
};

template <int kNodes>
__device__ void CopyOperands(const TileWork& on,
                             const TileMemory<kNodes>& memory) {
  const RowCopy<kNodes, kTreeKeyDim / 8> keys = {
      .count = on.count, .stride_bytes = kKeyStride * sizeof(BFloat16)};
  keys.Run(memory.k, [&](int node) {
    return on.factors.k(on.first + node, on.key_head);
  });
  keys.Run(memory.q, [&](int node) {
    return As<BFloat16>(on.p.q) +
           (static_cast<int64_t>(on.first + node) * on.p.shape.key_heads +
            on.key_head) *
               kTreeKeyDim;
  });
  const int chunks = on.columns / 8;
  for (int i = threadIdx.x; i < kNodes * chunks;
       i += static_cast<int>(blockDim.x)) {
    const int node = i / chunks;
    const int column = i % chunks * 8;
    const bool valid = node < on.count;
    CopyAsync16(
        SharedAddress(memory.v + node * (on.columns + kPadding) + column),
        on.factors.v(on.first + (valid ? node : 0), on.head) + on.first_column +
            column,
        valid);
  }
  CommitCopies();
}

// Copies G or C, but only the tiles of 8 x 8 up to the diagonal.
template <int kNodes>
__device__ void CopyMatrix(const float* from, int count, int max_nodes,
                           float* to) {
  constexpr int kChunks = kNodes / 4;
  const int nodes = TileNodes(count);
  for (int i = threadIdx.x; i < nodes * kChunks;
       i += static_cast<int>(blockDim.x)) {
    const int row = i / kChunks;
    const int column = i % kChunks * 4;
    if (column > (row | 7)) continue;
    CopyAsync16(SharedAddress(to + row * TileMemory<kNodes>::kStride + column),
                from + row * max_nodes + column, true);
  }
  CommitCopies();
}

template <int kNodes>
__device__ void LoadGates(const TileWork& on, const TreeFactors& factors,
                          const TileMemory<kNodes>& memory) {
  const float* decay = factors.p(on.request, on.head);
  for (int i = threadIdx.x; i < kNodes; i += static_cast<int>(blockDim.x)) {
    const bool valid = i < on.count;
    const int row = on.first + (valid ? i : 0);
    const float p = valid ? decay[i] : 0;
    memory.beta[i] = valid ? on.factors.beta(row, on.head) : 0;
    memory.k_factor[i] = p * on.factors.k_scale(row, on.key_head);
    memory.q_factor[i] =
        p * on.p.q_scale[static_cast<int64_t>(row) * on.p.shape.key_heads +
                         on.key_head];
  }
}

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_VERIFY_TWO_STAGE_MEMORY_CUH_
