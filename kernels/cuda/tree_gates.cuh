// What a value head's products with the nodes of a tree are scaled and masked
// by, in shared memory.
#ifndef BOLE_KERNELS_CUDA_TREE_GATES_CUH_
#define BOLE_KERNELS_CUDA_TREE_GATES_CUH_

#include <cstdint>

#include "kernels/cuda/gdn_views.cuh"
#include "kernels/gdn.h"

namespace bole::cuda {

// A request's rows as one value head sees them. Pointers are to its first row.
template <typename T>
struct HeadTree {
  __device__ HeadTree(const GdnCoreParams& p, int request, int head)
      : first(p.batch.first_row[request]),
        count(p.batch.first_row[request + 1] - first),
        head(head),
        key_head(KeyHead(p.shape, head)),
        factors(p.shape, p.factors, p.layer) {}

  const int first;  // Row.
  const int count;  // T
  const int head;
  const int key_head;
  const FactorRows<T> factors;
};

// For each of kNodes nodes; zero from the tree's count on.
template <int kNodes>
struct TreeGates {
  static constexpr int kWords = (kNodes + 31) / 32;

  double path_sum[kNodes];  // Gamma
  int up[kNodes];           // The node up to which path_sum reaches, or -1.
  float2 gamma[kNodes];     // Gamma as a sum of two floats: strong decays near
                            // the root must not blur differences below it.
  float beta[kNodes];
  float k_scale[kNodes];
  float q_scale[kNodes];
  float correction_scale[kNodes];      // beta exp(Gamma) k_scale
  float readout_scale[kNodes];         // exp(Gamma) q_scale
  uint32_t ancestors[kNodes][kWords];  // Or the node itself.

  // Fills everything in with one warp; the block must synchronise before use.
  template <typename T>
  __device__ void Load(const GdnCoreParams& p, const HeadTree<T>& tree) {
    const int lane = threadIdx.x % 32;
    for (int i = lane; i < kNodes; i += 32) LoadNode(p, tree, i);
    __syncwarp();
    SumPaths();
    for (int i = lane; i < kNodes; i += 32) {
      const float high = static_cast<float>(path_sum[i]);
      gamma[i] = {high, static_cast<float>(path_sum[i] - high)};
      const float decay = expf(high);
      correction_scale[i] = beta[i] * decay * k_scale[i];
      readout_scale[i] = decay * q_scale[i];
    }
  }

  // exp(Gamma_i - Gamma_j) for an ancestor j of i or i itself, otherwise 0.
  __device__ float Decay(int i, int j) const {
    const bool descends = ancestors[i][j / 32] >> (j % 32) & 1;
    const float2 a = gamma[i];
    const float2 b = gamma[j];
    return descends ? __expf((a.x - b.x) + (a.y - b.y)) : 0;
  }

 private:
  template <typename T>
  __device__ void LoadNode(const GdnCoreParams& p, const HeadTree<T>& tree,
                           int i) {
    const bool valid = i < tree.count;
    const int row = tree.first + i;
    const bool chain = p.batch.mask_words == 0;
    path_sum[i] = valid ? tree.factors.log_decay(row, tree.head) : 0;
    up[i] = !valid ? -1 : chain ? i - 1 : p.batch.parent[row];
    beta[i] = valid ? tree.factors.beta(row, tree.head) : 0;
    k_scale[i] = valid ? tree.factors.k_scale(row, tree.key_head) : 0;
    q_scale[i] = valid
                     ? p.q_scale[static_cast<int64_t>(row) * p.shape.key_heads +
                                 tree.key_head]
                     : 0;
    for (int w = 0; w < kWords; ++w) {
      uint32_t bits = 0;
      if (valid && chain) {
        bits = i >= 32 * w + 31 ? ~0u : i < 32 * w ? 0u : (2u << (i % 32)) - 1;
      } else if (valid && w < p.batch.mask_words) {
        bits =
            p.batch
                .ancestors[static_cast<int64_t>(row) * p.batch.mask_words + w];
      }
      ancestors[i][w] = bits;
    }
  }

  // Each step doubles the stretch of the path that is summed.
  __device__ void SumPaths() {
    constexpr int kPerLane = (kNodes + 31) / 32;
    const int lane = threadIdx.x % 32;
    while (true) {
      double sum[kPerLane];
      int next[kPerLane];
      bool more = false;
#pragma unroll
      for (int n = 0; n < kPerLane; ++n) {
        const int j = up[lane + 32 * n];
        sum[n] = j < 0 ? 0 : path_sum[j];
        next[n] = j < 0 ? -1 : up[j];
        more |= j >= 0;
      }
      if (!__any_sync(0xffffffffu, more)) return;
      __syncwarp();
#pragma unroll
      for (int n = 0; n < kPerLane; ++n) {
        path_sum[lane + 32 * n] += sum[n];
        up[lane + 32 * n] = next[n];
      }
      __syncwarp();
    }
  }
};

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_TREE_GATES_CUH_
