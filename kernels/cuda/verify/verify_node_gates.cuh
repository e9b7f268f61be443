// The scales and masks of a value head's products with the nodes of a tree, in
// shared memory, for the kernels that verify one head after another.
#ifndef BOLE_KERNELS_CUDA_VERIFY_VERIFY_NODE_GATES_CUH_
#define BOLE_KERNELS_CUDA_VERIFY_VERIFY_NODE_GATES_CUH_

#include <cstdint>

#include "kernels/cuda/gdn/gdn_views.cuh"
#include "kernels/cuda/verify/tree_gates.cuh"
#include "kernels/cuda/verify/verify_path_sums.cuh"
#include "kernels/gdn.h"

namespace bole::cuda {

// The head that the block processes next.
struct HeadHeader {
  int first_row;
  int count;  // T; 0: the block has no more heads.
  int head;
  int key_head;
  bool has_state;
  bool ends;  // No further head reads the same rows of k and q.
};

// The scales of the products of a node's key.
struct alignas(16) NodeScales {
  float2 gamma;  // As in TreeGates.
  float k_scale;
  float key_factor;  // beta k_scale
};

// The gates that the warps that multiply the state read.
template <int kMaxNodes>
struct ColumnGates {
  float beta[kMaxNodes];
  float correction_scale[kMaxNodes];  // beta exp(Gamma) k_scale
  float readout_scale[kMaxNodes];     // exp(Gamma) q_scale
};

// The gates that the warps that build the matrices read; all zero from the
// tree's count on. Filled by one warp, in which each lane has nodes lane + 32
// n.
template <int kMaxNodes>
struct alignas(16) MatrixGates {
  static constexpr int kNodes = kMaxNodes;
  static constexpr int kWords = kNodes / 32;
  static constexpr int kPerLane = kNodes / 32;

  // What is read for a head, for each of the lane's nodes.
  struct Ancestors {
    uint32_t bits[kPerLane][kWords];
  };
  struct Scales {
    float log_decay[kPerLane];
    float beta[kPerLane];
    float k_scale[kPerLane];
    float q_scale[kPerLane];
  };

  NodeScales node[kNodes];
  uint32_t ancestors[kNodes][kWords];  // Including the node itself.
  float q_scale[kNodes];

  // Reads the topology, which is allowed before WaitForPrevious(). Ancestors
  // come before their node.
  __device__ static void Read(const GdnCoreParams& p, const HeadHeader& header,
                              Ancestors& of) {
#pragma unroll
    for (int n = 0; n < kPerLane; ++n) {
      const int i = Node(n);
#pragma unroll
      for (int w = 0; w < kWords; ++w) {
        of.bits[n][w] = w <= n && i < header.count
                            ? MaskWord(p.batch, header.first_row + i, i, w)
                            : 0;
      }
    }
  }

  // Reads the scales. Lanes without a node read those of the last row instead,
  // so that all loads are in flight before the first is used.
  __device__ static void Read(const GdnCoreParams& p, const HeadHeader& header,
                              Scales& of) {
    const FactorRows<BFloat16> factors(p.shape, p.factors, p.layer);
#pragma unroll
    for (int n = 0; n < kPerLane; ++n) {
      const int row = header.first_row + min(Node(n), header.count - 1);
      of.log_decay[n] = factors.log_decay(row, header.head);
      of.beta[n] = factors.beta(row, header.head);
      of.k_scale[n] = factors.k_scale(row, header.key_head);
      of.q_scale[n] = p.q_scale[static_cast<int64_t>(row) * p.shape.key_heads +
                                header.key_head];
    }
  }

  // Returns the parents of the lane's nodes, a byte each.
  __device__ uint32_t PutAncestors(const Ancestors& of) {
#pragma unroll
    for (int n = 0; n < kPerLane; ++n) {
#pragma unroll
      for (int w = 0; w < kWords; ++w) ancestors[Node(n)][w] = of.bits[n][w];
    }
    return PathSums<kPerLane>::Parents(of.bits);
  }

  __device__ void Fill(uint32_t parents, const Scales& scales, int count,
                       ColumnGates<kNodes>& columns) {
    PairSum sums[kPerLane];
#pragma unroll
    for (int n = 0; n < kPerLane; ++n) {
      sums[n] = {Node(n) < count ? scales.log_decay[n] : 0, 0};
    }
    PathSums<kPerLane>::Add(parents, sums);
#pragma unroll
    for (int n = 0; n < kPerLane; ++n) {
      const int i = Node(n);
      const bool valid = i < count;
      Put(i, sums[n], valid ? scales.beta[n] : 0, valid ? scales.k_scale[n] : 0,
          valid ? scales.q_scale[n] : 0, columns);
    }
  }

 private:
  __device__ static int Node(int n) {
    return 32 * n + static_cast<int>(threadIdx.x % 32);
  }

  __device__ void Put(int i, const PairSum& path_sum, float of_beta, float key,
                      float query, ColumnGates<kNodes>& columns) {
    const PairSum gamma = path_sum.InPowersOfTwo();
    const float decay = exp2f(gamma.high);
    node[i] = {.gamma = {gamma.high, gamma.low},
               .k_scale = key,
               .key_factor = of_beta * key};
    q_scale[i] = query;
    columns.beta[i] = of_beta;
    columns.correction_scale[i] = of_beta * decay * key;
    columns.readout_scale[i] = decay * query;
  }
};

// Both kinds of gates of a head.
template <int kMaxNodes>
struct NodeGates : MatrixGates<kMaxNodes>, ColumnGates<kMaxNodes> {
  using Matrix = MatrixGates<kMaxNodes>;

  __device__ void Fill(const typename Matrix::Ancestors& of,
                       const typename Matrix::Scales& scales, int count) {
    Matrix::Fill(Matrix::PutAncestors(of), scales, count, *this);
  }
};

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_VERIFY_VERIFY_NODE_GATES_CUH_
