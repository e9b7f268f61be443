// Verification of the trees of few requests, alone or together with the
// operators before and after it in its layer: GdnConv, GdnVerify and
// GdnGatedNorm in one launch.
//
// A block has a tile of the columns of a value head (verify_few.cuh). In a
// layer, a cluster has all tiles of the value heads that read a key head. Its
// blocks send each other the keys and queries that they have convolved, and the
// sums of squares of the norm. Messages count their bytes at a barrier of the
// receiver. Unlike a barrier of the cluster, it does not wait for the stores of
// factors to global memory.
//
// A layer does not call StartNext(), because its blocks fill some
// multiprocessors and leave the others empty (launch.cuh).
#include "kernels/cuda/verify/gdn_verify_few.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "absl/status/status.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/cluster.cuh"
#include "kernels/cuda/gdn/gdn_conv.cuh"
#include "kernels/cuda/gdn/gdn_views.cuh"
#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/operators.h"
#include "kernels/cuda/verify/gdn_verify_alone.h"
#include "kernels/cuda/verify/gdn_verify_fused.h"
#include "kernels/cuda/verify/verify_few.cuh"
#include "kernels/cuda/verify/verify_front.cuh"
#include "kernels/cuda/verify/verify_norm.cuh"
#include "kernels/cuda/verify/verify_solve.cuh"
#include "kernels/cuda/verify/verify_tile.cuh"

namespace bole::cuda {
namespace {

constexpr int kMaxNodes = 64;
constexpr int kMaxCluster = 8;

// In a layer, the last kGateWarps warps compute the gates; the others run the
// front.
template <typename C>
constexpr int kGateWarps = C::kNodes / 32;

template <typename C>
struct LayerShared {
  FewShared<C> verify;
  TileFront<C::kNodes, C::kTileColumns, C::kThreads, C::kWarps - kGateWarps<C>>
      front;
  HeadSquares<C::kNodes> squares;
  TileNorm<C> norm;
  // These count what blocks of the cluster send: keys and queries; squares, and
  // the block's own outputs.
  uint64_t keys_barrier;
  uint64_t squares_barrier;
};

// The block's tile without the data of its request. `cluster` is the number of
// blocks of a cluster.
template <typename C>
__device__ LayerTile TileOfBlock(int cluster) {
  const int block = static_cast<int>(blockIdx.x);
  const int heads_per_key = static_cast<int>(gridDim.x) / C::kTiles;
  const int key_head = static_cast<int>(blockIdx.y);
  int rank = 0;
#if __CUDA_ARCH__ >= 900
  rank = ClusterRank();
#endif
  return {.request = static_cast<int>(blockIdx.z),
          .key_head = key_head,
          .head = key_head * heads_per_key + block / C::kTiles,
          .column = block % C::kTiles * C::kTileColumns,
          .rank = rank,
          .blocks = cluster,
          .owns_keys = block < cluster};
}

// Runs the front. It writes its factors to global memory, and also sends keys
// and queries to all blocks of the cluster. The copies of the weights must have
// been started.
template <typename C>
__device__ void RunFront(const GdnVerifyLayerParams& p, const LayerTile& tile,
                         int padded, LayerShared<C>& s, Gates<C>& gates) {
  ProjectedGates projected(p.conv, tile);
  if (gates.node >= 0) s.front.FindTaps(p.conv, tile, gates);
  s.front.PrefetchWindow(p.conv, tile);
  if (threadIdx.x == 0) {
    ArriveExpecting(SharedAddress(&s.keys_barrier),
                    s.front.BytesOfKeys(tile, padded));
    ArriveExpecting(SharedAddress(&s.squares_barrier), s.squares.Bytes(padded));
  }
  WaitForCopies<1>();  // The weights; not yet the state.
  WaitForCluster();    // All blocks have started.
  __syncthreads();
  WaitForPrevious();
  if (gates.node >= 0) {
    if (gates.valid) projected.Load(p.conv, tile, gates.node);
    s.norm.template LoadAsync<C::kNodes>(p.norm, tile, gates.node);
    projected.Compute(p.conv, tile, gates);
    gates.Store(s.verify.gates);
  } else {
    s.front.Run(p.conv, tile, padded, s.verify, s.keys_barrier);
  }
  WaitForCopies<0>();
  __syncthreads();
  WaitBarrier(SharedAddress(&s.keys_barrier), 0);
}

template <typename C>
__device__ void ReadFactors(const GdnCoreParams& p, const LayerTile& tile,
                            int padded, FewShared<C>& s, Gates<C>& gates) {
  WaitForPrevious();
  float2 scales = {};
  if (gates.node >= 0) scales = gates.Read(p, tile);
  LoadKeys(p, tile, padded, s);
  LoadValues(p, tile, padded, s);
  CommitCopies();
  if (gates.node >= 0) {
    s.gates.k_scale[gates.node] = scales.x;
    s.gates.q_scale[gates.node] = scales.y;
    gates.Store(s.gates);
  }
  WaitForCopies<0>();
  __syncthreads();
}

// Runs the roles of the warps: some solve and read out, the others build the
// matrices. Calls put(group, j) in the warp of a group when block j of its
// outputs has replaced its values.
template <typename C, typename Put>
__device__ void RunRoles(FewShared<C>& s, const Gates<C>& gates, int used,
                         const Put& put) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const bool builds = warp >= C::kColumnWarps;
  const bool solves = warp < C::kColumnGroups;
  const int group = warp % C::kColumnGroups;
  if (builds) {
    BuildMatrices<C>(s, gates, used);
    __syncthreads();
    return;
  }
  TileSum sums[C::kBlocks] = {};
  MultiplyTileState<C>(s, group, used, solves ? s.keys : s.queries, sums);
  __syncthreads();
  if (solves) {
    SolveGroup<C>(s, group, used, sums);
  } else {
    ReadGroup<C>(s, group, used, sums, [&](int j, const TileSum& o) {
      PutOutputs<C>(o, group, j, s);
      put(group, j);
    });
  }
}

template <typename C>
__device__ void VerifyAlone(const GdnCoreParams& p, const LayerTile& tile,
                            int padded, FewShared<C>& s, Gates<C>& gates) {
  ReadFactors<C>(p, tile, padded, s, gates);
  RunRoles<C>(s, gates, padded / kTileRows,
              [&](int group, int j) { StoreOutputs<C>(p, tile, group, j, s); });
}

template <typename C>
__device__ void VerifyInLayer(const GdnVerifyLayerParams& p,
                              const LayerTile& tile, int padded,
                              LayerShared<C>& s, Gates<C>& gates) {
#if __CUDA_ARCH__ >= 900
  RunFront<C>(p, tile, padded, s, gates);
  RunRoles<C>(s.verify, gates, padded / kTileRows, [&](int group, int j) {
    SendSquares<C>(tile, group, j, s.verify.values, s.squares,
                   s.squares_barrier);
    if (j == padded / kTileRows - 1) Arrive(SharedAddress(&s.squares_barrier));
  });
  WaitBarrier(SharedAddress(&s.squares_barrier), 0);
  s.norm.Store(p.norm, tile, s.verify.values, s.squares);
#endif
}

// Topology, states and windows were written before this forward pass, whose
// first kernel (Embed) waited for all earlier ones, so they are read while the
// previous kernel may still run.
template <typename C, bool kIsLayer>
__device__ void VerifyTile(const GdnVerifyLayerParams& p, int cluster,
                           LayerShared<C>& s) {
  if constexpr (!kIsLayer) StartNext();
  LayerTile tile = TileOfBlock<C>(cluster);
  tile.ReadRequest(p.core.batch);
  if (threadIdx.x == 32 * C::kColumnWarps) {
    InitLaneBarrier(&s.verify.gates_full, C::kNodes / 32);
  }
  if constexpr (kIsLayer) {
    if (threadIdx.x == 0) {
      InitBarrier(SharedAddress(&s.keys_barrier), 1);
      InitBarrier(SharedAddress(&s.squares_barrier), 1 + 32 * C::kColumnGroups);
      FenceBarrierInit();
    }
    ArriveAtCluster();
    s.front.LoadWeights(p.conv, tile);
  }
  if (tile.count <= 0) {
    WaitForPrevious();  // A kernel that has ended has waited.
    CommitCopies();
    WaitForCopies<0>();  // No copy may arrive after the block has ended.
    return;
  }
  if (tile.count > C::kNodes) __trap();
  // The last threads have a node each.
  Gates<C> gates(p.core.batch, tile,
                 static_cast<int>(threadIdx.x) - (C::kThreads - C::kNodes));
  LoadTileState<C>(p.core, tile, s.verify);
  const int padded = (tile.count + kTileRows - 1) / kTileRows * kTileRows;
  if constexpr (kIsLayer) {
    VerifyInLayer<C>(p, tile, padded, s, gates);
  } else {
    VerifyAlone<C>(p.core, tile, padded, s.verify, gates);
  }
}

// Grid: tiles of the heads of a key head, key heads, requests.
template <typename C, bool kIsLayer>
__global__ void __launch_bounds__(C::kThreads, 1)
    FewKernel(const __grid_constant__ GdnVerifyLayerParams p, int cluster) {
  extern __shared__ __align__(128) unsigned char memory[];
#if __CUDA_ARCH__ >= 900
  constexpr bool kHasClusters = true;
#else
  constexpr bool kHasClusters = false;
#endif
  if constexpr (kHasClusters || !kIsLayer) {
    VerifyTile<C, kIsLayer>(p, cluster,
                            *reinterpret_cast<LayerShared<C>*>(memory));
  }
}

template <typename C, bool kIsLayer>
constexpr int kSharedBytes = kIsLayer ? sizeof(LayerShared<C>)
                                      : sizeof(FewShared<C>);

template <typename C, bool kIsLayer>
absl::Status AllowSharedMemory() {
  return ToStatus(
      cudaFuncSetAttribute(FewKernel<C, kIsLayer>,
                           cudaFuncAttributeMaxDynamicSharedMemorySize,
                           kSharedBytes<C, kIsLayer>),
      "shared memory of GdnVerify");
}

// How many clusters of `blocks` blocks of a layer run at a time.
template <typename C>
int NumClusters(int blocks) {
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {static_cast<unsigned>(blocks), 1, 1};
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(C::kThreads);
  config.dynamicSmemBytes = kSharedBytes<C, true>;
  config.attrs = &attribute;
  config.numAttrs = 1;
  int count = 0;
  if (!AllowSharedMemory<C, true>().ok() ||
      cudaOccupancyMaxActiveClusters(&count, FewKernel<C, true>, &config) !=
          cudaSuccess) {
    cudaGetLastError();
  }
  return count;
}

// The blocks of a layer's cluster. It has as many heads of a key head as allow
// all clusters to run at the same time, since a cluster that has to wait for
// another costs more than a second convolution of the keys.
template <typename C>
int ClusterOfLayer(const GdnCoreParams& p) {
  static const std::array<int, kMaxCluster + 1> kAtATime = [] {
    std::array<int, kMaxCluster + 1> counts = {};
    for (int blocks = C::kTiles; blocks <= kMaxCluster; blocks += C::kTiles) {
      counts[blocks] = NumClusters<C>(blocks);
    }
    return counts;
  }();
  const int group = p.shape.value_heads / p.shape.key_heads;
  const int num_heads = p.shape.value_heads * p.batch.max_requests;
  for (int heads = std::min(group, kMaxCluster / C::kTiles); heads > 1;
       --heads) {
    if (group % heads == 0 &&
        num_heads / heads <= kAtATime[heads * C::kTiles]) {
      return heads * C::kTiles;
    }
  }
  return C::kTiles;
}

template <typename C, bool kIsLayer>
absl::Status LaunchFew(const GdnVerifyLayerParams& p, const Launch& on) {
  const absl::Status raised = AllowSharedMemory<C, kIsLayer>();
  if (!raised.ok()) return raised;
  const GdnShape& shape = p.core.shape;
  int cluster = 1;
  if constexpr (kIsLayer) cluster = ClusterOfLayer<C>(p.core);
  const unsigned tiles = shape.value_heads / shape.key_heads * C::kTiles;
  return LaunchDependent(
      kIsLayer ? "GdnVerifyLayer" : "GdnVerify", FewKernel<C, kIsLayer>,
      {.grid = dim3(tiles, shape.key_heads, p.core.batch.max_requests),
       .block = dim3(C::kThreads),
       .shared_bytes = kSharedBytes<C, kIsLayer>,
       .cluster = cluster},
      on, p, cluster);
}

// The most nodes that a tree may have.
int NodeCapacity(const RowBatch& batch) {
  return batch.mask_words > 0 ? std::min(32 * batch.mask_words, batch.rows.max)
                              : batch.rows.max;
}

int NumHeads(const GdnCoreParams& p) {
  return p.shape.value_heads * p.batch.max_requests;
}

// Calls f with the configuration for the problem. A head has as many tiles as
// can have a multiprocessor each.
template <typename F>
auto WithConfig(const GdnCoreParams& p, const F& f) {
  return NumHeads(p) <= 32 ? f(FewConfig<4, 2, 16>())
                           : f(FewConfig<4, 4, 20>());
}
// In a layer, fewer blocks share more of the convolution.
using LayerConfig = FewConfig<4, 4, 20>;

bool FitsTiles(const GdnCoreParams& p, const Launch& on) {
  return on.type == ElementType::kBFloat16 && p.solver == TreeSolver::kBlocks &&
         p.shape.key_dim == kKeyDim && p.shape.value_dim == kValueDim &&
         NodeCapacity(p.batch) <= kMaxNodes;
}

}  // namespace

bool CanVerifyFew(const GdnCoreParams& p, const Launch& on) {
  return FitsTiles(p, on) && NumHeads(p) <= 64 &&
         WithConfig(p, [&on](auto config) {
           return kSharedBytes<decltype(config), false> <= on.shared_bytes;
         });
}

bool CanVerifyAlone(const GdnCoreParams& p, const Launch& on) {
  const int nodes = NodeCapacity(p.batch);
  return CanVerifyFew(p, on) && on.is_hopper && nodes > kMaxNodes / 2 &&
         NumHeads(p) <= 32;
}

absl::Status GdnVerifyFew(const GdnCoreParams& p, const Launch& on) {
  return WithConfig(p, [&](auto config) {
    return LaunchFew<decltype(config), false>(
        {.conv = {}, .core = p, .norm = {}}, on);
  });
}

bool CanVerifyLayer(const GdnVerifyLayerParams& p, const Launch& on) {
  return on.overlaps && FitsTiles(p.core, on) && FitsVectorConv(p.core.shape) &&
         NumHeads(p.core) <= 64 &&
         kSharedBytes<LayerConfig, true> <= on.shared_bytes;
}

absl::Status GdnVerifyLayer(const GdnVerifyLayerParams& p, const Launch& on) {
  return LaunchFew<LayerConfig, true>(p, on);
}

}  // namespace bole::cuda
