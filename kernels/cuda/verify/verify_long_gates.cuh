// What a value head's products with up to 128 nodes are scaled and masked by,
// in shared memory (gdn_verify_long.cu).
#ifndef BOLE_KERNELS_CUDA_VERIFY_VERIFY_LONG_GATES_CUH_
#define BOLE_KERNELS_CUDA_VERIFY_VERIFY_LONG_GATES_CUH_

#include <cstdint>

#include "kernels/cuda/gdn/gdn_views.cuh"
#include "kernels/cuda/verify/tree_gates.cuh"
#include "kernels/cuda/verify/verify_node_gates.cuh"
#include "kernels/gdn.h"

namespace bole::cuda {

// All zero from the tree's count on.
struct LongGates {
  static constexpr int kNodes = 128;
  static constexpr int kWords = kNodes / 32;

  NodeScales node[kNodes];
  uint32_t ancestors[kNodes][kWords];  // Or the node itself.
  float q_scale[kNodes];
  float beta[kNodes];
  float correction_scale[kNodes];  // beta exp(Gamma) k_scale
  float readout_scale[kNodes];     // exp(Gamma) q_scale
  float log_decay[kNodes];

  // By kThreads threads. Before Finish() they must synchronise.
  template <int kThreads>
  __device__ void Load(const GdnCoreParams& p, const HeadTree<BFloat16>& tree,
                       int thread) {
    constexpr int kPerThread = kNodes / kThreads;
    float values[kPerThread][4];
    uint32_t bits[kPerThread][kWords];
    // Everything is on its way before the first is stored.
#pragma unroll
    for (int n = 0; n < kPerThread; ++n) {
      const int i = n * kThreads + thread;
      const int row = tree.first + i;
      const bool valid = i < tree.count;
      values[n][0] = valid ? tree.factors.log_decay(row, tree.head) : 0;
      values[n][1] = valid ? tree.factors.beta(row, tree.head) : 0;
      values[n][2] = valid ? tree.factors.k_scale(row, tree.key_head) : 0;
      values[n][3] =
          valid ? p.q_scale[static_cast<int64_t>(row) * p.shape.key_heads +
                            tree.key_head]
                : 0;
#pragma unroll
      for (int w = 0; w < kWords; ++w) {
        bits[n][w] = valid ? MaskWord(p.batch, row, i, w) : 0;
      }
    }
#pragma unroll
    for (int n = 0; n < kPerThread; ++n) {
      const int i = n * kThreads + thread;
      log_decay[i] = values[n][0];
      beta[i] = values[n][1];
      node[i].k_scale = values[n][2];
      q_scale[i] = values[n][3];
#pragma unroll
      for (int w = 0; w < kWords; ++w) ancestors[i][w] = bits[n][w];
    }
  }

  // What depends on node i's path.
  __device__ void Finish(int i) { FinishNode(*this, i, PathSum(i)); }

 private:
  // Four ancestors at a time, for their loads to overlap.
  __device__ double PathSum(int i) const {
    double sum = 0;
#pragma unroll 1
    for (int w = 0; w < kWords; ++w) {
      uint32_t bits = ancestors[i][w];
      while (bits != 0) {
        float x[4];
#pragma unroll
        for (int n = 0; n < 4; ++n) {
          x[n] = bits == 0 ? 0 : log_decay[32 * w + __ffs(bits) - 1];
          bits &= bits - 1;
        }
        sum += (static_cast<double>(x[0]) + x[1]) +
               (static_cast<double>(x[2]) + x[3]);
      }
    }
    return sum;
  }
};

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_VERIFY_VERIFY_LONG_GATES_CUH_
