// Stage 1 of the two-stage verification: the matrices G and C and the path
// decays P of every request and value head, computed once and written to
// scratch for the value tiles of stage 2.
#ifndef BOLE_KERNELS_CUDA_VERIFY_TREE_FACTORS_CUH_
#define BOLE_KERNELS_CUDA_VERIFY_TREE_FACTORS_CUH_

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/gdn/gdn_views.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/verify/mma_tf32.cuh"
#include "kernels/gdn.h"

namespace bole::cuda {

inline constexpr int kTreeKeyDim = 128;  // dk

// Scratch of B requests with Hv heads and room for n nodes each.
struct TreeFactors {
  float* matrix;      // [B, Hv, 2, n, n]: -G, then C, rounded to tf32. Written
                      // in tiles of 16 rows and 8 columns up to the diagonal;
                      // entries of absent nodes are 0.
  float* path_decay;  // [B, Hv, n] P_i = exp(Gamma_i)
  int max_nodes;      // n
  int value_heads;    // Hv

  static size_t Bytes(int requests, int value_heads, int max_nodes) {
    const size_t n = max_nodes;
    return sizeof(float) * requests * value_heads * (2 * n * n + n);
  }
  TreeFactors(void* scratch, int requests, int heads, int nodes)
      : matrix(static_cast<float*>(scratch)),
        path_decay(matrix + size_t{2} * requests * heads * nodes * nodes),
        max_nodes(nodes),
        value_heads(heads) {}

  __device__ int64_t head(int request, int value_head) const {
    return static_cast<int64_t>(request) * value_heads + value_head;
  }
  // [n, n]
  __device__ float* g(int request, int value_head) const {
    return matrix + 2 * head(request, value_head) * max_nodes * max_nodes;
  }
  __device__ float* c(int request, int value_head) const {
    return g(request, value_head) + max_nodes * max_nodes;
  }
  __device__ float* p(int request, int value_head) const {
    return path_decay + head(request, value_head) * max_nodes;
  }
};

// The nodes of a request, rounded up to whole tiles of 16.
__device__ inline int TileNodes(int num_nodes) {
  return (num_nodes + 15) / 16 * 16;
}

inline constexpr int kFactorThreads = 256;
inline constexpr int kFactorRows = 16;
inline constexpr int kFactorStride =
    kTreeKeyDim + 8;  // In elements; padded against bank conflicts.

// A block's shared memory: keys of all nodes, queries of its rows, and gates in
// every value head of the group.
struct FactorMemory {
  BFloat16* k;          // [n, kFactorStride]
  BFloat16* q;          // [16, kFactorStride]
  double* gamma;        // [group, n] Gamma; double, so that a strong decay near
                        // the root does not blur differences below it.
  float* log_decay;     // [group, n]
  float* beta;          // [group, 16] of the rows.
  float* k_scale;       // [n]
  float* q_scale;       // [16]
  int* parent;          // [n]
  uint32_t* ancestors;  // [16, n / 32] of the rows, themselves included.

  static size_t Bytes(int nodes, int group) {
    return (nodes + kFactorRows) * kFactorStride * sizeof(BFloat16) +
           group * (nodes * (sizeof(double) + sizeof(float)) +
                    kFactorRows * sizeof(float)) +
           nodes * (sizeof(float) + sizeof(int)) +
           kFactorRows * (sizeof(float) + nodes / 32 * sizeof(uint32_t));
  }
  __device__ FactorMemory(unsigned char* memory, int nodes, int group)
      : k(reinterpret_cast<BFloat16*>(memory)),
        q(k + nodes * kFactorStride),
        gamma(reinterpret_cast<double*>(q + kFactorRows * kFactorStride)),
        log_decay(reinterpret_cast<float*>(gamma + group * nodes)),
        beta(log_decay + group * nodes),
        k_scale(beta + group * kFactorRows),
        q_scale(k_scale + nodes),
        parent(reinterpret_cast<int*>(q_scale + kFactorRows)),
        ancestors(reinterpret_cast<uint32_t*>(parent + nodes)) {}
};

// The rows of a request as a block of stage 1 sees them.
struct FactorRowsOf {
  const GdnCoreParams& p;
  FactorRows<BFloat16> factors;
  int key_head;
  int group;      // Value heads of the key head.
  int first;      // Row of node 0.
  int count;      // Nodes.
  int first_row;  // Node of the block's first row.

  __device__ explicit FactorRowsOf(const GdnCoreParams& params)
      : p(params),
        factors(params.shape, params.factors, params.layer),
        key_head(blockIdx.y),
        group(params.shape.value_heads / params.shape.key_heads),
        first(params.batch.first_row[blockIdx.z]),
        count(params.batch.first_row[blockIdx.z + 1] - first),
        first_row(static_cast<int>(blockIdx.x) * kFactorRows) {}

  // Nodes that the block's rows may descend from.
  __device__ int num_columns() const {
    return min(first_row + kFactorRows, count);
  }
  __device__ int64_t key_row(int node) const {
    return static_cast<int64_t>(first + node) * p.shape.key_heads + key_head;
  }
  __device__ int value_head(int member) const {
    return key_head * group + member;
  }
  // 32 bits of the ancestor mask of a node, itself included.
  __device__ uint32_t Ancestors(int node, int word) const {
    if (node >= count) return 0;
    const int words = p.batch.mask_words;
    if (words > 0) {
      if (word >= words) return 0;
      return p.batch
          .ancestors[static_cast<int64_t>(first + node) * words + word];
    }
    const int bits = node + 1 - 32 * word;  // A chain: all nodes before it.
    return bits >= 32 ? 0xffffffffu : bits <= 0 ? 0 : (1u << bits) - 1;
  }
};

__device__ inline void LoadFactorRows(const FactorRowsOf& rows,
                                      const FactorMemory& memory, int nodes) {
  constexpr int kChunks = kTreeKeyDim / 8;  // Chunks of 16 bytes.
  const int columns = rows.first_row + kFactorRows;
  for (int i = threadIdx.x; i < (columns + kFactorRows) * kChunks;
       i += kFactorThreads) {
    const int line = i / kChunks;
    const int element = i % kChunks * 8;
    const bool is_key = line < columns;
    const int node = is_key ? line : rows.first_row + line - columns;
    const bool valid = node < rows.count;
    const BFloat16* base = As<BFloat16>(is_key ? rows.p.factors.k : rows.p.q);
    const BFloat16* from =
        is_key ? rows.factors.k(rows.first + (valid ? node : 0), rows.key_head)
               : base + rows.key_row(valid ? node : 0) * kTreeKeyDim;
    BFloat16* to = is_key ? memory.k + line * kFactorStride
                          : memory.q + (line - columns) * kFactorStride;
    CopyAsync16(SharedAddress(to + element), from + element, valid);
  }
  CommitCopies();
  for (int i = threadIdx.x; i < rows.num_columns(); i += kFactorThreads) {
    memory.parent[i] = rows.p.batch.mask_words == 0
                           ? i - 1
                           : rows.p.batch.parent[rows.first + i];
    memory.k_scale[i] = rows.factors.k_scale(rows.first + i, rows.key_head);
    for (int m = 0; m < rows.group; ++m) {
      memory.log_decay[m * nodes + i] =
          rows.factors.log_decay(rows.first + i, rows.value_head(m));
    }
  }
  const int words = nodes / 32;
  for (int i = threadIdx.x; i < kFactorRows * words; i += kFactorThreads) {
    memory.ancestors[i] = rows.Ancestors(rows.first_row + i / words, i % words);
  }
  if (threadIdx.x < kFactorRows) {
    const int i = threadIdx.x;
    const int node = min(rows.first_row + i, rows.count - 1);
    memory.q_scale[i] = rows.p.q_scale[rows.key_row(node)];
    for (int m = 0; m < rows.group; ++m) {
      memory.beta[m * kFactorRows + i] =
          rows.factors.beta(rows.first + node, rows.value_head(m));
    }
  }
}

// Each thread climbs from its node to the root on its own, so that the threads
// need no order.
__device__ inline void ClimbPaths(const FactorRowsOf& rows,
                                  const FactorMemory& memory, int nodes,
                                  const TreeFactors& out) {
  const int columns = rows.num_columns();
  for (int i = threadIdx.x; i < rows.group * columns; i += kFactorThreads) {
    const int member = i / columns;
    const int node = i % columns;
    double sum = 0;
    for (int j = node; j >= 0; j = memory.parent[j]) {
      sum += memory.log_decay[member * nodes + j];
    }
    memory.gamma[member * nodes + node] = sum;
    if (node >= rows.first_row) {
      out.p(blockIdx.z, rows.value_head(member))[node] =
          expf(static_cast<float>(sum));
    }
  }
}

// A lane's elements of the products of the block's rows with eight keys.
struct GramTile {
  float kk[4];
  float qk[4];
};

__device__ inline GramTile MultiplyKeys(const FactorMemory& memory,
                                        int first_row, int first_column) {
  GramTile gram = {};
  const int lane = threadIdx.x % 32;
  // Left operands: 16 rows; right operands: 8 rows, two steps of 16 at a time.
  const int left = lane % 16 * kFactorStride + lane / 16 * 8;
  const uint32_t k_rows =
      SharedAddress(memory.k + first_row * kFactorStride + left);
  const uint32_t q_rows = SharedAddress(memory.q + left);
  const uint32_t columns = SharedAddress(
      memory.k + (first_column + lane % 8) * kFactorStride + lane / 8 * 8);
#pragma unroll
  for (int step = 0; step < kTreeKeyDim; step += 32) {
    constexpr int kBytes = sizeof(BFloat16);
    uint32_t b[4];
    LoadMatrices(columns + step * kBytes, b);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      uint32_t a[4];
      LoadMatrices(k_rows + (step + 16 * half) * kBytes, a);
      MultiplyAdd(gram.kk, a, b[2 * half], b[2 * half + 1]);
      LoadMatrices(q_rows + (step + 16 * half) * kBytes, a);
      MultiplyAdd(gram.qk, a, b[2 * half], b[2 * half + 1]);
    }
  }
  return gram;
}

// Writes -G_ij = -beta_i exp(Gamma_i - Gamma_j) k_i k_j for ancestors j of i
// and C_ij = exp(Gamma_i - Gamma_j) q_i k_j for those and i itself, from
// products of rows that are not normalised. The exponential is taken for
// ancestors only, so that its argument is never positive.
__device__ inline void WriteFactors(const FactorRowsOf& rows,
                                    const FactorMemory& memory, int nodes,
                                    int first_column, const GramTile& gram,
                                    const TreeFactors& out) {
  const int lane = threadIdx.x % 32;
  const int j = first_column + lane % 4 * 2;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int in_block = lane / 4 + 8 * half;
    const int i = rows.first_row + in_block;
    const uint32_t reads =
        memory.ancestors[in_block * (nodes / 32) + j / 32] >> (j % 32);
    for (int m = 0; m < rows.group; ++m) {
      const double* gamma = memory.gamma + m * nodes;
      uint32_t g[2] = {0, 0};
      uint32_t c[2] = {0, 0};
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        if ((reads >> e & 1) == 0) continue;
        const float decay = expf(static_cast<float>(gamma[i] - gamma[j + e])) *
                            memory.k_scale[j + e];
        c[e] = ToTf32(decay * memory.q_scale[in_block] * gram.qk[2 * half + e]);
        if (j + e == i) continue;
        g[e] = ToTf32(-memory.beta[m * kFactorRows + in_block] * decay *
                      memory.k_scale[i] * gram.kk[2 * half + e]);
      }
      const int head = rows.value_head(m);
      const int64_t at = static_cast<int64_t>(i) * out.max_nodes + j;
      *reinterpret_cast<uint2*>(out.g(blockIdx.z, head) + at) =
          make_uint2(g[0], g[1]);
      *reinterpret_cast<uint2*>(out.c(blockIdx.z, head) + at) =
          make_uint2(c[0], c[1]);
    }
  }
}

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_VERIFY_TREE_FACTORS_CUH_
