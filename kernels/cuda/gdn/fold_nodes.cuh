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

inline constexpr int kFoldChunk = 8;  // Elements that a thread converts.
inline constexpr int kKeyChunks = kStateKeyDim / kFoldChunk;
inline constexpr int kValueChunks = kFoldTileValues / kFoldChunk;

// Up to kFoldNodes nodes of a path as they are in memory.
template <typename T>
struct alignas(16) RawNodes {
  T k[kFoldNodes][kStateKeyDim];
  T v[kFoldNodes][kFoldTileValues];
  float k_scale[kFoldNodes];
  float log_decay[kFoldNodes];
  float beta[kFoldNodes];
};

// The same nodes in the form that the recurrence uses.
struct alignas(16) Nodes {
  float k[kFoldNodes][kStateKeyDim];  // Normalised.
  float v[kFoldNodes][kFoldTileValues];
  float decay[kFoldNodes];
  float beta[kFoldNodes];
};

// Starts an asynchronous copy of 4 bytes to shared memory.
__device__ inline void CopyAsync4(uint32_t to, const float* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to),
               "l"(__cvta_generic_to_global(from))
               : "memory");
}

// The copies of a thread for a tile: the same 16 bytes of the key or of the
// values in some of the nodes, and a number of one node.
template <typename T>
class NodeCopies {
 public:
  __device__ NodeCopies(const GdnCommitParams& p, const FoldTile& tile) {
    const FactorRows<T> factors(p.shape, p.factors, tile.layer);
    const int copy = thread() % kCopies;
    const int value = (copy - kKeyCopies) * kPerCopy;
    is_key_ = copy < kKeyCopies;
    from_ = is_key_ ? factors.k(0, tile.key_head) + copy * kPerCopy
                    : factors.v(0, tile.head) + tile.first_value + value;
    stride_ = is_key_ ? p.shape.key_width() : p.shape.value_width();
    copies_ = thread() < kAtATime * kCopies &&
              (is_key_ || tile.first_value + value < p.shape.value_dim);
    number_stride_ = p.shape.value_heads;
    if (warp() == 0) {
      number_ = &factors.k_scale(0, tile.key_head);
      number_stride_ = p.shape.key_heads;
    } else {
      number_ = warp() == 1 ? &factors.log_decay(0, tile.head)
                            : &factors.beta(0, tile.head);
    }
  }

  // Starts the copies for the path's first nodes.
  __device__ void Stage(const ActiveRequest& request, RawNodes<T>& to) const {
    const int count = min(request.count, kFoldNodes);
    if (copies_) {
      const int copy = thread() % kCopies;
      const int first = thread() / kCopies;
      const uint32_t at =
          is_key_ ? SharedAddress(&to.k[first][copy * kPerCopy])
                  : SharedAddress(&to.v[first][(copy - kKeyCopies) * kPerCopy]);
      const int bytes =
          static_cast<int>(is_key_ ? sizeof(to.k[0]) : sizeof(to.v[0]));
#pragma unroll
      for (int i = 0; i < kFoldNodes; i += kAtATime) {
        if (first + i >= count) break;
        CopyAsync16(
            at + i * bytes,
            from_ + static_cast<int64_t>(request.row[first + i]) * stride_,
            true);
      }
    }
    static_assert(kFoldWarps >= 3 && kFoldNodes <= 32);
    const int node = thread() % 32;
    if (warp() >= 3 || node >= count) return;
    float* number = warp() == 0   ? to.k_scale
                    : warp() == 1 ? to.log_decay
                                  : to.beta;
    CopyAsync4(
        SharedAddress(number + node),
        number_ + static_cast<int64_t>(request.row[node]) * number_stride_);
  }

 private:
  static constexpr int kPerCopy = 16 / sizeof(T);
  static constexpr int kKeyCopies = kStateKeyDim / kPerCopy;
  static constexpr int kCopies = kKeyCopies + kFoldTileValues / kPerCopy;
  static constexpr int kAtATime = kFoldThreads / kCopies;

  __device__ static int thread() { return static_cast<int>(threadIdx.x); }
  __device__ static int warp() { return thread() / 32; }

  const T* from_;        // In row 0.
  const float* number_;  // In row 0.
  int stride_;           // From row to row.
  int number_stride_;
  bool is_key_;
  bool copies_;
};

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

// Loads `count` nodes of a long path from `begin` on, straight from memory.
template <typename T>
__device__ void LoadNodes(const GdnCommitParams& p, const FoldTile& tile,
                          const ActiveRequest& request, int begin, int count,
                          Nodes& nodes) {
  const FactorRows<T> factors(p.shape, p.factors, tile.layer);
  for (int node = 0; node < count; ++node) {
    const int row = p.path.row[request.first + begin + node];
    const int i = static_cast<int>(threadIdx.x);  // A thread per key element.
    nodes.k[node][i] = __fmul_rn(ToFloat(factors.k(row, tile.key_head)[i]),
                                 factors.k_scale(row, tile.key_head));
    if (i < min(kFoldTileValues, p.shape.value_dim - tile.first_value)) {
      nodes.v[node][i] =
          ToFloat(factors.v(row, tile.head)[tile.first_value + i]);
    }
    nodes.decay[node] = expf(factors.log_decay(row, tile.head));
    nodes.beta[node] = factors.beta(row, tile.head);
  }
}
__device__ inline void FoldNodes(const Nodes& nodes, int count,
                                 FoldState& state) {
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
