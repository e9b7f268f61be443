// What a value head's products with the nodes of a tree are scaled and masked
// by, in shared memory, for the kernels that verify one head after another.
#ifndef BOLE_KERNELS_CUDA_VERIFY_VERIFY_NODE_GATES_CUH_
#define BOLE_KERNELS_CUDA_VERIFY_VERIFY_NODE_GATES_CUH_

#include <cstdint>

#include "kernels/cuda/gdn/gdn_views.cuh"
#include "kernels/cuda/verify/tree_gates.cuh"
#include "kernels/gdn.h"

namespace bole::cuda {

// A head that the block has next.
struct HeadHeader {
  int first_row;
  int count;  // T; 0: the block has had all of its heads.
  int head;
  bool has_state;
  bool ends;  // No further head reads the same rows of k and q.
};

// What is read for node i of a head; zero behind the tree's last.
template <int kWords>
struct NodeInputs {
  float log_decay = 0;
  float beta = 0;
  float k_scale = 0;
  float q_scale = 0;
  uint32_t ancestors[kWords] = {};

  __device__ static NodeInputs Of(const GdnCoreParams& p,
                                  const HeadHeader& header, int i) {
    NodeInputs inputs;
    if (i >= header.count) return inputs;
    const FactorRows<BFloat16> factors(p.shape, p.factors, p.layer);
    const int key_head = KeyHead(p.shape, header.head);
    const int row = header.first_row + i;
    inputs.log_decay = factors.log_decay(row, header.head);
    inputs.beta = factors.beta(row, header.head);
    inputs.k_scale = factors.k_scale(row, key_head);
    inputs.q_scale =
        p.q_scale[static_cast<int64_t>(row) * p.shape.key_heads + key_head];
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      inputs.ancestors[w] = MaskWord(p.batch, row, i, w);
    }
    return inputs;
  }
};

// What the products of a node's key are scaled by.
struct alignas(16) NodeScales {
  float2 gamma;  // As in TreeGates.
  float k_scale;
  float key_factor;  // beta k_scale
};

// What depends on Gamma of node i, after the rest is there.
template <typename Gates>
__device__ void FinishNode(Gates& gates, int i, double path_sum) {
  const double sum = path_sum * 1.4426950408889634;
  const float high = static_cast<float>(sum);
  const float decay = exp2f(high);
  const float key = gates.node[i].k_scale;
  gates.node[i] = {.gamma = {high, static_cast<float>(sum - high)},
                   .k_scale = key,
                   .key_factor = gates.beta[i] * key};
  gates.correction_scale[i] = gates.beta[i] * decay * key;
  gates.readout_scale[i] = decay * gates.q_scale[i];
}

// All zero from the tree's count on.
template <int kMaxNodes>
struct alignas(16) NodeGates {
  static constexpr int kNodes = kMaxNodes;
  static constexpr int kWords = kNodes / 32;

  NodeScales node[kNodes];
  double log_decay[kNodes];
  uint32_t ancestors[kNodes][kWords];  // Or the node itself.
  float q_scale[kNodes];
  float beta[kNodes];
  float correction_scale[kNodes];  // beta exp(Gamma) k_scale
  float readout_scale[kNodes];     // exp(Gamma) q_scale

  __device__ void Put(int i, const NodeInputs<kWords>& inputs) {
    log_decay[i] = inputs.log_decay;
    beta[i] = inputs.beta;
    node[i].k_scale = inputs.k_scale;
    q_scale[i] = inputs.q_scale;
#pragma unroll
    for (int w = 0; w < kWords; ++w) ancestors[i][w] = inputs.ancestors[w];
  }

  // What depends on node i's path, when all nodes have been put.
  __device__ void Finish(int i) { FinishNode(*this, i, PathSum(i)); }

 private:
  // Of all nodes, without a branch: loads and sums do not wait for each other.
  __device__ double PathSum(int i) const {
    double sums[4] = {};
    for (int w = 0; w < kWords; ++w) {
      const uint32_t bits = ancestors[i][w];
#pragma unroll
      for (int n = 0; n < 32; n += 2) {
        const double2 x =
            *reinterpret_cast<const double2*>(log_decay + 32 * w + n);
        sums[n % 4] += (bits >> n & 1) != 0 ? x.x : 0;
        sums[n % 4 + 1] += (bits >> (n + 1) & 1) != 0 ? x.y : 0;
      }
    }
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
  }
};

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_VERIFY_VERIFY_NODE_GATES_CUH_
