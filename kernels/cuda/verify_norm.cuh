// The gated norm of a head whose columns the blocks of a cluster have.
#ifndef BOLE_KERNELS_CUDA_VERIFY_NORM_CUH_
#define BOLE_KERNELS_CUDA_VERIFY_NORM_CUH_

#include <cstdint>

#include "kernels/cuda/bf16x8.cuh"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/gdn_conv.cuh"
#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/verify_columns.cuh"
#include "kernels/cuda/verify_tile.cuh"
#include "kernels/gdn.h"

namespace bole::cuda {

// Squares of the outputs of each node, summed over 16 columns of the head: from
// all blocks that have some.
template <int kNodes>
struct HeadSquares {
  float of[kNodes][kValueDim / kColumns];
};

// Sends the sums of squares of O^T of a group of columns, which PutPart() has
// left in `values`, to all blocks of the head; those of nodes behind the last
// may be anything. By the group's warp.
template <typename C, typename Values>
__device__ void SendSquares(const LayerTile& tile, int group, Values& values,
                            HeadSquares<C::kNodes>& squares) {
  // Two lanes have a node, 8 columns each.
  const int half = static_cast<int>(threadIdx.x) % 2;
  const int place = tile.column / kColumns + group;
  const int first_rank = tile.rank - tile.column / C::kTileColumns;
#pragma unroll
  for (int n = 0; n < C::kBlocks; ++n) {
    const int node = n * kTileRows + static_cast<int>(threadIdx.x) % 32 / 2;
    float o[kVector];
    Unpack(*values.At(node, group * 2 + half), o);
    float sum = 0;
#pragma unroll
    for (int c = 0; c < kVector; ++c) sum = fmaf(o[c], o[c], sum);
    sum += __shfl_xor_sync(0xffffffffu, sum, 1);
    for (int t = half; t < C::kTiles; t += 2) {
      *InBlock(&squares.of[node][place], first_rank + t) = sum;
    }
  }
}

// The norm of a tile by all threads of its block, some vectors each.
template <typename C>
class TileNorm {
 public:
  // Brings the gates on their way.
  __device__ TileNorm(const GdnGatedNormParams& p, const LayerTile& tile)
      : p_(p), tile_(tile) {
    const float4* weight = reinterpret_cast<const float4*>(p.weight + Column());
    weight_[0] = weight[0];
    weight_[1] = weight[1];
#pragma unroll
    for (int n = 0; n < kPerThread; ++n) {
      if (Node(n) >= tile.count) break;
      gate_[n] =
          LoadVector(As<BFloat16>(p.projected) +
                     static_cast<int64_t>(tile.first + Node(n)) *
                         p.shape.projected_width() +
                     p.shape.z_column() + tile.head * kHeadDim + Column());
    }
  }

  // Outputs and squares are there.
  template <typename Values>
  __device__ void Store(Values& values,
                        const HeadSquares<C::kNodes>& squares) const {
    const float weight[kVector] = {weight_[0].x, weight_[0].y, weight_[0].z,
                                   weight_[0].w, weight_[1].x, weight_[1].y,
                                   weight_[1].z, weight_[1].w};
#pragma unroll
    for (int n = 0; n < kPerThread; ++n) {
      if (Node(n) >= tile_.count) break;
      float sum = 0;
#pragma unroll
      for (int i = 0; i < kValueDim / kColumns; ++i) {
        sum += squares.of[Node(n)][i];
      }
      const float mean = sum / static_cast<float>(kHeadDim);
      float o[kVector];
      float z[kVector];
      Unpack(*values.At(Node(n), Vector()), o);
      Unpack(gate_[n], z);
      const int64_t at =
          static_cast<int64_t>(tile_.first + Node(n)) * p_.shape.value_heads +
          tile_.head;
      StoreVector(As<BFloat16>(p_.out) + at * kHeadDim + Column(),
                  GateNormed(o, rsqrtf(mean + p_.epsilon), weight, z));
    }
  }

 private:
  static constexpr int kVectors = C::kTileColumns / kVector;  // Of a node.
  static constexpr int kNodesAtATime = C::kThreads / kVectors;
  static constexpr int kPerThread =
      (C::kNodes + kNodesAtATime - 1) / kNodesAtATime;

  __device__ static int Vector() {
    return static_cast<int>(threadIdx.x) % kVectors;
  }
  __device__ static int Node(int n) {
    return static_cast<int>(threadIdx.x) / kVectors + n * kNodesAtATime;
  }
  __device__ int Column() const { return tile_.column + Vector() * kVector; }

  const GdnGatedNormParams& p_;
  const LayerTile& tile_;
  float4 weight_[2];
  uint4 gate_[kPerThread] = {};
};

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_VERIFY_NORM_CUH_
