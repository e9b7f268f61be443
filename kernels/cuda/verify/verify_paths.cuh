// M = C (I + G)^-1 of a tree whose paths are short, path by path. Row i of C
// and of G is zero except at i's ancestors (for C at i as well), so row i of M
// is too, and
//
//   M_ij = C_ij - sum of M_il G_lj over the nodes l of i's path after j
//
// depends on nothing outside of that path. So of all products k_i k_j and q_i
// k_j only those of a node and its ancestors are kept, by the ancestor's place
// in the path. Each thread has the row of a node, in float32.
#ifndef BOLE_KERNELS_CUDA_VERIFY_VERIFY_PATHS_CUH_
#define BOLE_KERNELS_CUDA_VERIFY_VERIFY_PATHS_CUH_

#include <cuda_bf16.h>

#include <cstdint>

#include "kernels/cuda/verify/tree_blocks.cuh"
#include "kernels/cuda/verify/verify_node_gates.cuh"

namespace bole::cuda {

// Nodes of a path, the last one included.
constexpr int kMaxPath = 16;

// The products that value heads with the same keys and queries share.
template <int kNodes>
struct PathProducts {
  float keys[kMaxPath][kNodes];     // k_i k_j of node i and place of j.
  float queries[kMaxPath][kNodes];  // q_i k_j
  uint4 path[kNodes];               // j, a byte each; i itself after the last.
};

// G of a value head.
template <int kNodes>
using PathCouplings = float[kMaxPath][kNodes];

// A node's path, as its thread holds it.
struct NodePath {
  int node;
  int last;     // Its place in its own path; -1: there is no such node.
  int longest;  // The largest `last` among the warp's nodes.
  uint4 nodes;  // As in PathProducts.

  __device__ __forceinline__ int At(int place) const {
    const uint32_t word = place / 4 == 0   ? nodes.x
                          : place / 4 == 1 ? nodes.y
                          : place / 4 == 2 ? nodes.z
                                           : nodes.w;
    return static_cast<int>(word >> place % 4 * 8 & 255);
  }
};

// Called by the node's thread. Lists the node's path from its ancestors.
template <int kWords>
__device__ __forceinline__ void PutPath(const uint32_t (&ancestors)[kWords],
                                        int node, uint4& path) {
  const uint32_t all = 0x01010101u * static_cast<uint32_t>(node);
  path = make_uint4(all, all, all, all);
  auto* place = reinterpret_cast<unsigned char*>(&path);
#pragma unroll
  for (int w = 0; w < kWords; ++w) {
    uint32_t bits = ancestors[w];
#pragma unroll 1
    for (; bits != 0; bits &= bits - 1) {
      *place++ = static_cast<unsigned char>(32 * w + __ffs(bits) - 1);
    }
  }
}

// Keeps the products of node i and its ancestors. `keys` and `queries` are
// products of 64 rows of keys, and of queries, with 64 keys, as a warpgroup has
// them (wgmma.cuh); the thread's row `half`, 0 or 1, is that of node i. words:
// the ancestors among the 64; place: that of the first of them in the path.
template <int kNodes>
__device__ __forceinline__ void KeepProducts(
    const float (&keys)[32], const float (&queries)[32], int half, int node,
    const uint32_t (&words)[2], int place, PathProducts<kNodes>& to) {
#pragma unroll
  for (int w = 0; w < 2; ++w) {
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      const int bit = 8 * n + static_cast<int>(threadIdx.x) % 4 * 2;
      const uint32_t pair = words[w] >> bit;
      const int at = (4 * w + n) * 4 + 2 * half;
      const int row = place + __popc(words[w] & ((1u << bit) - 1));
      float* const of_keys = &to.keys[row][node];
      float* const of_queries = &to.queries[row][node];
      const int next = static_cast<int>(pair & 1) * kNodes;
      if ((pair & 1) != 0) {
        *of_keys = keys[at];
        *of_queries = queries[at];
      }
      if ((pair & 2) != 0) {
        of_keys[next] = keys[at + 1];
        of_queries[next] = queries[at + 1];
      }
    }
    place += __popc(words[w]);
  }
}

// Writes the node's row of G to `couplings`, and that of C to m, by place.
// Unused entries are zeroed up to the longest path of the warp.
template <int kNodes>
__device__ __forceinline__ void ScalePath(const PathProducts<kNodes>& products,
                                          const NodeScales* scales,
                                          float q_scale, const NodePath& path,
                                          PathCouplings<kNodes>& couplings,
                                          float (&m)[kMaxPath]) {
  const NodeScales end = scales[path.node];
#pragma unroll
  for (int b = 0; b < kMaxPath; ++b) {
    m[b] = 0;
    if (b > path.longest) continue;
    const NodeScales start = scales[path.At(b)];
    const float scale = ExpOfTwo((end.gamma.x - start.gamma.x) +
                                 (end.gamma.y - start.gamma.y)) *
                        start.k_scale;
    const bool counts = b <= path.last;
    couplings[b][path.node] =
        counts ? end.key_factor * scale * products.keys[b][path.node] : 0;
    if (counts) m[b] = q_scale * scale * products.queries[b][path.node];
  }
}

// Turns C's row into M's. The couplings of all nodes must have been written.
template <int kNodes>
__device__ __forceinline__ void SolvePath(
    const PathCouplings<kNodes>& couplings, const NodePath& path,
    float (&m)[kMaxPath]) {
#pragma unroll
  for (int a = kMaxPath - 1; a > 0; --a) {
    if (a > path.longest) continue;
    const float* const of_node = &couplings[0][path.At(a)];
#pragma unroll
    for (int b = 0; b < a; ++b) m[b] -= m[a] * of_node[b * kNodes];
  }
}

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_VERIFY_VERIFY_PATHS_CUH_
