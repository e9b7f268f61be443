// The scales and masks of value heads' products with the nodes of a tree, in
// shared memory.
#ifndef BOLE_KERNELS_CUDA_VERIFY_TREE_GATES_CUH_
#define BOLE_KERNELS_CUDA_VERIFY_TREE_GATES_CUH_

#include <cstdint>

#include "kernels/cuda/gdn/gdn_views.cuh"
#include "kernels/gdn.h"

namespace bole::cuda {

// A request's rows.
struct TreeRows {
  int first;
  int count;  // T
};

// A request's rows as seen by some value heads of one key head.
template <typename T>
struct HeadTree {
  __device__ HeadTree(const GdnCoreParams& p, int request, int first_head,
                      int heads)
      : HeadTree(p,
                 TreeRows{p.batch.first_row[request],
                          p.batch.first_row[request + 1] -
                              p.batch.first_row[request]},
                 first_head, heads) {}
  __device__ HeadTree(const GdnCoreParams& p, TreeRows rows, int first_head,
                      int heads)
      : first(rows.first),
        count(rows.count),
        head(first_head),
        num_heads(heads),
        key_head(KeyHead(p.shape, first_head)),
        factors(p.shape, p.factors, p.layer) {}

  const int first;  // Row.
  const int count;  // T
  const int head;   // The first of num_heads.
  const int num_heads;
  const int key_head;
  const FactorRows<T> factors;
};

// Word w of the mask of node i, whose row is `row`.
__device__ inline uint32_t MaskWord(const RowBatch& batch, int row, int i,
                                    int w) {
  const int words = batch.mask_words;
  if (words == 0) {  // A chain: all nodes before it.
    return i >= 32 * w + 31 ? ~0u : i < 32 * w ? 0u : (2u << i % 32) - 1;
  }
  if (w >= words) return 0;
  return __ldcg(&batch.ancestors[static_cast<int64_t>(row) * words + w]);
}

// The sum of the log decays of the nodes of a path. Loads four at a time so
// that the loads overlap. Bits: uint32_t or uint64_t.
template <typename Bits>
__device__ double PathSum(const float* log_decay, Bits path) {
  double sum = 0;
#pragma unroll 1
  while (path != 0) {
    float x[4];
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      int node = -1;
      if constexpr (sizeof(Bits) == 8) {
        node += __ffsll(static_cast<int64_t>(path));
      } else {
        node += __ffs(static_cast<int>(path));
      }
      const float next = log_decay[max(node, 0)];
      x[n] = node < 0 ? 0 : next;
      path &= path - 1;
    }
    sum +=
        (static_cast<double>(x[0]) + x[1]) + (static_cast<double>(x[2]) + x[3]);
  }
  return sum;
}

// The gates of each of kNodes nodes, and of each of up to kHeads heads of one
// key head; zero from the tree's count on.
template <int kNodes, int kHeads>
struct TreeGates {
  static constexpr int kWords = (kNodes + 31) / 32;

  struct Head {
    float log_decay[kNodes];
    float beta[kNodes];
    float2 gamma[kNodes];  // Gamma log2(e) as a sum of two floats: strong
                           // decays near the root must not blur differences
                           // below it.
    float correction_scale[kNodes];  // beta exp(Gamma) k_scale
    float readout_scale[kNodes];     // exp(Gamma) q_scale
  };

  float k_scale[kNodes];
  float q_scale[kNodes];
  uint32_t ancestors[kNodes][kWords];  // Including the node itself.
  Head heads[kHeads];

  // Reads the gates of node i. The threads must synchronise before Finish().
  template <typename T>
  __device__ void Load(const GdnCoreParams& p, const HeadTree<T>& tree, int i) {
    if (i >= kNodes) return;
    const bool valid = i < tree.count;
    const int row = tree.first + i;
    // Issue all loads before the first result is stored.
    float log_decay[kHeads];
    float beta[kHeads];
    uint32_t bits[kWords];
    const float key = valid ? tree.factors.k_scale(row, tree.key_head) : 0;
    const float query =
        valid ? p.q_scale[QueryIndex(p, row, tree.key_head)] : 0;
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      const bool used = valid && h < tree.num_heads;
      log_decay[h] = used ? tree.factors.log_decay(row, tree.head + h) : 0;
      beta[h] = used ? tree.factors.beta(row, tree.head + h) : 0;
    }
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      bits[w] = valid ? MaskWord(p.batch, row, i, w) : 0;
    }
    k_scale[i] = key;
    q_scale[i] = query;
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      heads[h].log_decay[i] = log_decay[h];
      heads[h].beta[i] = beta[h];
    }
#pragma unroll
    for (int w = 0; w < kWords; ++w) ancestors[i][w] = bits[w];
  }

  // Sums the log decays along the paths, with kThreads threads, of which this
  // is the `thread`-th. The block must synchronise before use.
  template <int kThreads>
  __device__ void Finish(int num_heads, int thread) {
    for (int n = thread; n < num_heads * kNodes; n += kThreads) {
      const int i = n % kNodes;
      Head& head = heads[n / kNodes];
      const float decay = SumPath(head, i);
      SetScales(head, i, decay);
    }
  }

  // Sets gamma of node i and returns exp(Gamma). Reads log_decay and ancestors.
  __device__ float SumPath(Head& head, int i) {
    double sum = 0;
    for (int w = 0; w < kWords; ++w) {
      sum += PathSum(head.log_decay + 32 * w, ancestors[i][w]);
    }
    return SetGamma(head, i, sum);
  }
  // Does the same, given Gamma.
  __device__ static float SetGamma(Head& head, int i, double path_sum) {
    const double sum = path_sum * 1.4426950408889634;
    const float high = static_cast<float>(sum);
    head.gamma[i] = {high, static_cast<float>(sum - high)};
    return exp2f(high);
  }
  // Sets what depends on the scales of node i's key and query.
  __device__ void SetScales(Head& head, int i, float decay) {
    head.correction_scale[i] = head.beta[i] * decay * k_scale[i];
    head.readout_scale[i] = decay * q_scale[i];
  }

 private:
  __device__ static int64_t QueryIndex(const GdnCoreParams& p, int row,
                                       int key_head) {
    return static_cast<int64_t>(row) * p.shape.key_heads + key_head;
  }
};

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_VERIFY_TREE_GATES_CUH_
