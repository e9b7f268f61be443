// The gated norm of a head whose columns are spread over the blocks of a
// cluster.
#ifndef BOLE_KERNELS_CUDA_VERIFY_VERIFY_NORM_CUH_
#define BOLE_KERNELS_CUDA_VERIFY_VERIFY_NORM_CUH_

#include <cstdint>

#include "kernels/cuda/bf16x8.cuh"
#include "kernels/cuda/cluster.cuh"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/gdn/gdn_conv.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/verify/verify_columns.cuh"
#include "kernels/cuda/verify/verify_tile.cuh"
#include "kernels/gdn.h"

namespace bole::cuda {

// Sums of squares of each node's outputs, each over 16 columns of the head,
// from all blocks that have columns of it.
template <int kNodes>
struct HeadSquares {
  static constexpr int kParts = kValueDim / kColumns;
  float4 of[kNodes][kParts / 4];

  __device__ static int Bytes(int nodes) {
    return nodes * static_cast<int>(kParts * sizeof(float));
  }
};

// Sends the sums of squares of block j of O^T of a group of columns, which is
// in `values`, to all blocks of the head, where they count at `barrier`. Sums
// of nodes after the last may be anything. Called by the group's warp.
template <typename C, typename Values>
__device__ void SendSquares(const LayerTile& tile, int group, int j,
                            Values& values, HeadSquares<C::kNodes>& squares,
                            const uint64_t& barrier) {
  // Two lanes have a node, 8 columns each.
  const int half = static_cast<int>(threadIdx.x) % 2;
  const int place = tile.column / kColumns + group;
  const int first_rank = tile.rank - tile.column / C::kTileColumns;
  const int node = j * kTileRows + static_cast<int>(threadIdx.x) % 32 / 2;
  float o[kVector];
  Unpack(*values.At(node, group * 2 + half), o);
  float sum = 0;
#pragma unroll
  for (int c = 0; c < kVector; ++c) sum = fmaf(o[c], o[c], sum);
  sum += __shfl_xor_sync(0xffffffffu, sum, 1);
  for (int t = half; t < C::kTiles; t += 2) {
    SendAsync(reinterpret_cast<const float*>(squares.of[node]) + place, sum,
              &barrier, first_rank + t);
  }
}

// The other operands of a tile's norm, and the norm itself.
template <typename C>
class TileNorm {
 public:
  // Starts the copies, with kLoaders threads, as one group. The projection must
  // have been written.
  template <int kLoaders>
  __device__ void LoadAsync(const GdnGatedNormParams& p, const LayerTile& tile,
                            int thread) {
    const int64_t width = p.shape.projected_width();
    const BFloat16* z = As<BFloat16>(p.projected) + tile.first * width +
                        p.shape.z_column() + tile.head * kHeadDim + tile.column;
    for (int i = thread; i < tile.count * kVectors; i += kLoaders) {
      CopyAsync16(SharedAddress(&gate_[i / kVectors][i % kVectors]),
                  z + i / kVectors * width + i % kVectors * kVector,
                  /*valid=*/true);
    }
    if (thread < kVectors * 2) {
      CopyAsync16(SharedAddress(&weight_[thread]),
                  p.weight + tile.column + thread * 4, /*valid=*/true);
    }
    CommitCopies();
  }

  // Called by all threads of the block, which store some vectors each. Outputs
  // and squares must have arrived.
  template <typename Values>
  __device__ void Store(const GdnGatedNormParams& p, const LayerTile& tile,
                        Values& values,
                        const HeadSquares<C::kNodes>& squares) const {
    for (int i = threadIdx.x; i < tile.count * kVectors; i += C::kThreads) {
      const int node = i / kVectors;
      const int vector = i % kVectors;
      float sum = 0;
#pragma unroll
      for (const float4& x : squares.of[node]) sum += (x.x + x.y) + (x.z + x.w);
      const float scale =
          rsqrtf(sum / static_cast<float>(kHeadDim) + p.epsilon);
      const float4 w[2] = {weight_[vector * 2], weight_[vector * 2 + 1]};
      const float weight[kVector] = {w[0].x, w[0].y, w[0].z, w[0].w,
                                     w[1].x, w[1].y, w[1].z, w[1].w};
      float o[kVector];
      float z[kVector];
      Unpack(*values.At(node, vector), o);
      Unpack(gate_[node][vector], z);
      const int64_t at =
          static_cast<int64_t>(tile.first + node) * p.shape.value_heads +
          tile.head;
      StoreVector(
          As<BFloat16>(p.out) + at * kHeadDim + tile.column + vector * kVector,
          GateNormed(o, scale, weight, z));
    }
  }

 private:
  static constexpr int kVectors = C::kTileColumns / kVector;  // For a node.

  uint4 gate_[C::kNodes][kVectors];  // z
  float4 weight_[C::kTileColumns / 4];
};

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_VERIFY_VERIFY_NORM_CUH_
