// The nodes that a commit folds into a tile: copied as they are, then converted
// once for all threads of the block.
#ifndef BOLE_KERNELS_CUDA_GDN_FOLD_NODES_CUH_
#define BOLE_KERNELS_CUDA_GDN_FOLD_NODES_CUH_

#include <cstdint>

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/gdn/fold_tiles.cuh"
#include "kernels/cuda/gdn/gdn_state_rows.cuh"
#include "kernels/cuda/gdn/gdn_views.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/gdn.h"

namespace bole::cuda {

static_assert(kFoldThreads == kStateKeyDim);

// Up to kFoldNodes nodes of a path as they are in memory.
template <typename T>
struct alignas(16) RawNodes {
  T k[kFoldNodes][kStateKeyDim];
  T v[kFoldNodes][kFoldTileValues];
  float k_scale[kFoldNodes];
  float log_decay[kFoldNodes];
  float beta[kFoldNodes];
};

// And as the recurrence takes them.
struct alignas(16) Nodes {
  float k[kFoldNodes][kStateKeyDim];  // Normalised.
  float v[kFoldNodes][kFoldTileValues];
  float decay[kFoldNodes];
  float beta[kFoldNodes];
};

// Copies 4 bytes to shared memory behind the caller's back.
__device__ inline void CopyAsync4(uint32_t to, const float* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to),
               "l"(__cvta_generic_to_global(from))
               : "memory");
}

// Queues the copies of a tile's first nodes.
template <typename T>
__device__ void StageNodes(const GdnCommitParams& p, const FoldTile& tile,
                           RawNodes<T>& to) {
  constexpr int kPerCopy = 16 / sizeof(T);
  constexpr int kKeyCopies = kStateKeyDim / kPerCopy;
  constexpr int kCopies = kKeyCopies + kFoldTileValues / kPerCopy;
  const FactorRows<T> factors(p.shape, p.factors, tile.layer);
  const int key_head = KeyHead(p.shape, tile.head);
  const int count = min(tile.request->count, kFoldNodes);
  const int thread = static_cast<int>(threadIdx.x);
  for (int i = thread; i < count * kCopies; i += kFoldThreads) {
    const int node = i / kCopies;
    const int row = tile.request->row[node];
    const int copy = i % kCopies;
    const int value = (copy - kKeyCopies) * kPerCopy;
    if (copy < kKeyCopies) {
      CopyAsync16(SharedAddress(&to.k[node][copy * kPerCopy]),
                  factors.k(row, key_head) + copy * kPerCopy, true);
    } else if (tile.first_value + value < p.shape.value_dim) {
      CopyAsync16(SharedAddress(&to.v[node][value]),
                  factors.v(row, tile.head) + tile.first_value + value, true);
    }
  }
  if (thread < count) {
    const int row = tile.request->row[thread];
    CopyAsync4(SharedAddress(&to.k_scale[thread]),
               &factors.k_scale(row, key_head));
    CopyAsync4(SharedAddress(&to.log_decay[thread]),
               &factors.log_decay(row, tile.head));
    CopyAsync4(SharedAddress(&to.beta[thread]), &factors.beta(row, tile.head));
  }
}

// to = from * scale.
template <typename T>
__device__ void Convert(const T* from, float scale, float* to) {
  struct alignas(kFoldChunk * sizeof(T) < 16 ? kFoldChunk * sizeof(T) : 16)
      Chunk {
    T value[kFoldChunk];
  };
  const Chunk chunk = *reinterpret_cast<const Chunk*>(from);
#pragma unroll
  for (int i = 0; i < kFoldChunk; i += 4) {
    *reinterpret_cast<float4*>(to + i) =
        make_float4(__fmul_rn(ToFloat(chunk.value[i]), scale),
                    __fmul_rn(ToFloat(chunk.value[i + 1]), scale),
                    __fmul_rn(ToFloat(chunk.value[i + 2]), scale),
                    __fmul_rn(ToFloat(chunk.value[i + 3]), scale));
  }
}

template <typename T>
__device__ void ConvertNodes(const RawNodes<T>& raw, int count, Nodes& nodes) {
  const int thread = static_cast<int>(threadIdx.x);
  for (int i = thread; i < count * kKeyChunks; i += kFoldThreads) {
    const int node = i / kKeyChunks;
    const int first = i % kKeyChunks * kFoldChunk;
    Convert(&raw.k[node][first], raw.k_scale[node], &nodes.k[node][first]);
  }
  for (int i = thread; i < count * kValueChunks; i += kFoldThreads) {
    const int node = i / kValueChunks;
    const int first = i % kValueChunks * kFoldChunk;
    Convert(&raw.v[node][first], 1.0f, &nodes.v[node][first]);
  }
  if (thread < count) {
    nodes.decay[thread] = expf(raw.log_decay[thread]);
    nodes.beta[thread] = raw.beta[thread];
  }
}

// The nodes of a long path from `begin` on, straight from memory.
template <typename T>
__device__ void LoadNodes(const GdnCommitParams& p, const FoldTile& tile,
                          int begin, int count, Nodes& nodes) {
  const FactorRows<T> factors(p.shape, p.factors, tile.layer);
  const int key_head = KeyHead(p.shape, tile.head);
  for (int node = 0; node < count; ++node) {
    const int row = p.path.row[tile.request->first + begin + node];
    const int i = static_cast<int>(threadIdx.x);  // kFoldThreads are a key.
    nodes.k[node][i] = __fmul_rn(ToFloat(factors.k(row, key_head)[i]),
                                 factors.k_scale(row, key_head));
    if (i < min(kFoldTileValues, p.shape.value_dim - tile.first_value)) {
      nodes.v[node][i] =
          ToFloat(factors.v(row, tile.head)[tile.first_value + i]);
    }
    nodes.decay[node] = expf(factors.log_decay(row, tile.head));
    nodes.beta[node] = factors.beta(row, tile.head);
  }
}
__device__ inline void FoldNodes(const Nodes& nodes, int count,
                                 StateRows<kFoldRows>& state) {
  const int warp = static_cast<int>(threadIdx.x / 32);
  const int value = warp * kFoldWarpValues + kRowGroups * SummedRow() +
                    static_cast<int>(threadIdx.x % 32) / kRowLanes;
#pragma unroll 1
  for (int i = 0; i < count; ++i) {
    KeyElements k;
    LoadElements(nodes.k[i], k);
    AdvanceFourRows(state.value, k, nodes.decay[i], nodes.beta[i],
                    nodes.v[i][value]);
  }
}

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_GDN_FOLD_NODES_CUH_
