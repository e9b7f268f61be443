// Verification of the trees of few requests, alone and with what is before and
// behind it in its layer: GdnConv, GdnVerify and GdnGatedNorm in one launch.
//
// A block has a tile of the columns of a value head (verify_few.cuh). In a
// layer a cluster has all tiles of the value heads that read a key head: its
// blocks share the convolution of the keys and queries through memory, and the
// sums of squares of the norm through their shared memory.
//
// The next kernel is not told to start: these blocks fill some multiprocessors
// and leave the others empty (launch.cuh).
#include "kernels/cuda/gdn_verify_few.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "absl/status/status.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/gdn_conv.cuh"
#include "kernels/cuda/gdn_verify_fused.h"
#include "kernels/cuda/gdn_views.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/operators.h"
#include "kernels/cuda/verify_few.cuh"
#include "kernels/cuda/verify_front.cuh"
#include "kernels/cuda/verify_norm.cuh"
#include "kernels/cuda/verify_tile.cuh"

namespace bole::cuda {
namespace {

constexpr int kMaxNodes = 64;
constexpr int kMaxCluster = 8;

template <typename C>
struct LayerShared {
  FewShared<C> verify;
  TileFront<C::kNodes, C::kTileColumns, C::kThreads> front;
  HeadSquares<C::kNodes> squares;
};

__device__ void ArriveAtCluster() {
#if __CUDA_ARCH__ >= 900
  __syncwarp();
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#endif
}
__device__ void WaitForCluster() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

// The block's tile, with what is known of its request. Topology, states and
// windows are older than this forward pass, whose first kernel (Embed) waited
// for all before it: they are read while the kernel before may still run.
template <typename C>
__device__ LayerTile TileOfBlock(const GdnCoreParams& p, int blocks) {
  const int block = static_cast<int>(blockIdx.x);
  const int head = block / C::kTiles;
  LayerTile tile = {.request = static_cast<int>(blockIdx.y),
                    .key_head = KeyHead(p.shape, head),
                    .head = head,
                    .column = block % C::kTiles * C::kTileColumns,
                    .rank = block % blocks,
                    .blocks = blocks,
                    .owns_keys = false};
  const int first = block / blocks * blocks / C::kTiles;  // Of the cluster.
  tile.owns_keys = first == 0 || KeyHead(p.shape, first - 1) != tile.key_head;
  tile.ReadRequest(p.batch);
  return tile;
}

template <typename C>
__device__ void LoadTileState(const GdnCoreParams& p, const LayerTile& tile,
                              FewShared<C>& s) {
  const float* state = nullptr;
  if (!tile.from_zero) {
    state = HeadState(p.shape, p.states, tile.slot, p.layer, tile.head) +
            tile.column * kKeyDim;
  }
  s.state.template LoadAsync<C::kThreads>(state);
  CommitCopies();
}

// Keys and queries, once they have been written.
template <typename C>
__device__ void LoadKeys(const GdnCoreParams& p, const LayerTile& tile,
                         int padded, FewShared<C>& s) {
  const FactorRows<BFloat16> factors(p.shape, p.factors, p.layer);
  const int64_t stride = p.shape.key_width();
  s.keys.template LoadAsync<C::kThreads>(factors.k(tile.first, tile.key_head),
                                         stride, tile.count, padded);
  s.queries.template LoadAsync<C::kThreads>(
      As<BFloat16>(p.q) + tile.first * stride + tile.key_head * kKeyDim, stride,
      tile.count, padded);
}

template <typename C>
__device__ void LoadValues(const GdnCoreParams& p, const LayerTile& tile,
                           int padded, FewShared<C>& s) {
  constexpr int kVectors = C::kTileColumns / 8;
  const FactorRows<BFloat16> factors(p.shape, p.factors, p.layer);
  const BFloat16* v = factors.v(tile.first, tile.head) + tile.column;
#pragma unroll 1
  for (int i = threadIdx.x; i < padded * kVectors; i += C::kThreads) {
    const int node = i / kVectors;
    const bool valid = node < tile.count;
    CopyAsync16(
        SharedAddress(s.values.At(node, i % kVectors)),
        v + (valid ? node : 0) * static_cast<int64_t>(p.shape.value_width()) +
            i % kVectors * 8,
        valid);
  }
}

// O^T of a group to where v was, which the solver has read.
template <typename C>
__device__ void PutOutputs(const TileSum (&o)[C::kBlocks], int group,
                           FewShared<C>& s) {
#pragma unroll
  for (int part = 0; part < ValueParts(C::kBlocks); ++part) {
    PutPart(o, part * kPartBlocks,
            reinterpret_cast<unsigned char*>(s.values.part[group][part]));
  }
}

// From there to memory.
template <typename C>
__device__ void StoreGroup(const GdnCoreParams& p, const LayerTile& tile,
                           int group, FewShared<C>& s) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  BFloat16* out =
      As<BFloat16>(p.out) +
      (static_cast<int64_t>(tile.first) * p.shape.value_heads + tile.head) *
          kValueDim +
      tile.column + group * kColumns + lane % 2 * 8;
#pragma unroll 4
  for (int node = lane / 2; node < tile.count; node += 16) {
    *reinterpret_cast<uint4*>(out + static_cast<int64_t>(node) *
                                        p.shape.value_width()) =
        *s.values.At(node, group * 2 + lane % 2);
  }
}

// The front: its factors go to memory, and to the shared memory of the cluster.
template <typename C>
__device__ void RunFront(const GdnConvParams& p, const LayerTile& tile,
                         int padded, LayerShared<C>& s, Gates<C>& gates) {
  s.front.PrefetchWindow(p, tile);
  if (gates.node >= 0) s.front.FindTaps(p.batch, tile, gates.node);
  WaitForCopies<1>();  // The weights; not yet the state.
  ArriveAtCluster();
  WaitForCluster();  // All blocks have started.
  WaitForPrevious();
  ProjectedGates projected;
  if (gates.valid) projected.Load(p, tile, gates.node);
  s.front.Run(p, tile, padded, s.verify);
  if (gates.node >= 0) projected.Compute(p, tile, gates);
  WaitForCopies<0>();
  ArriveAtCluster();
  if (gates.node >= 0) SumPaths(s.verify, gates);
  WaitForCluster();
}

template <typename C>
__device__ void ReadFactors(const GdnCoreParams& p, const LayerTile& tile,
                            int padded, FewShared<C>& s, Gates<C>& gates) {
  WaitForPrevious();
  LoadKeys(p, tile, padded, s);
  LoadValues(p, tile, padded, s);
  CommitCopies();
  if (gates.node >= 0) {
    gates.Read(p, tile, s.gates);
    SumPaths(s, gates);
  }
  WaitForCopies<0>();
  __syncthreads();
}

template <typename C, bool kIsLayer>
__device__ void VerifyTile(const GdnVerifyLayerParams& p, int blocks,
                           LayerShared<C>& shared) {
  FewShared<C>& s = shared.verify;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const LayerTile tile = TileOfBlock<C>(p.core, blocks);
  if (tile.count <= 0) {
    WaitForPrevious();  // A kernel that has ended has waited.
    return;
  }
  if (tile.count > C::kNodes) __trap();
  if constexpr (kIsLayer) shared.front.LoadWeights(p.conv, tile);
  LoadTileState<C>(p.core, tile, s);
  const int used = (tile.count + kTileRows - 1) / kTileRows;
  const int padded = used * kTileRows;
  // The last threads have a node each.
  Gates<C> gates(p.core.batch, tile,
                 static_cast<int>(threadIdx.x) - (C::kThreads - C::kNodes));
  if constexpr (kIsLayer) {
    RunFront<C>(p.conv, tile, padded, shared, gates);
  } else {
    ReadFactors<C>(p.core, tile, padded, s, gates);
  }

  if (warp < C::kColumnGroups) {
    SolveGroup<C>(s, warp, used);
  } else if (warp < C::kColumnWarps) {
    const int group = warp - C::kColumnGroups;
    TileSum o[C::kBlocks] = {};
    ReadGroup<C>(s, group, used, o);
    PutOutputs<C>(o, group, s);
    if constexpr (kIsLayer) {
      SendSquares<C>(tile, group, s.values, shared.squares);
    } else {
      StoreGroup<C>(p.core, tile, group, s);
    }
  } else {
    BuildMatrices<C>(s, gates, used);
    __syncthreads();
  }
  if constexpr (kIsLayer) {
    const TileNorm<C> norm(p.norm, tile);
    ArriveAtCluster();
    WaitForCluster();
    norm.Store(s.values, shared.squares);
  }
}

// Grid: tiles of heads, key head after key head; requests.
template <typename C, bool kIsLayer>
__global__ void __launch_bounds__(C::kThreads, 1)
    FewKernel(const __grid_constant__ GdnVerifyLayerParams p, int blocks) {
  extern __shared__ __align__(128) unsigned char memory[];
#if __CUDA_ARCH__ >= 900
  constexpr bool kHasClusters = true;
#else
  constexpr bool kHasClusters = false;
#endif
  if constexpr (kHasClusters || !kIsLayer) {
    VerifyTile<C, kIsLayer>(p, blocks,
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

// How many clusters of so many blocks of a layer run at a time.
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

// Blocks of a layer's cluster: those of as many heads of a key head as run all
// at a time, since one that has to wait for another costs more than a second
// convolution of the keys.
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
  int blocks = 1;  // Of a cluster.
  if constexpr (kIsLayer) blocks = ClusterOfLayer<C>(p.core);
  const unsigned tiles = p.core.shape.value_heads * C::kTiles;
  return LaunchDependent(kIsLayer ? "GdnVerifyLayer" : "GdnVerify",
                         FewKernel<C, kIsLayer>,
                         {.grid = dim3(tiles, p.core.batch.max_requests),
                          .block = dim3(C::kThreads),
                          .shared_bytes = kSharedBytes<C, kIsLayer>,
                          .cluster = blocks},
                         on, p, blocks);
}

// Room for so many nodes a tree.
int NodeCapacity(const RowBatch& batch) {
  return batch.mask_words > 0 ? std::min(32 * batch.mask_words, batch.rows.max)
                              : batch.rows.max;
}

int NumHeads(const GdnCoreParams& p) {
  return p.shape.value_heads * p.batch.max_requests;
}

// Calls f with the configuration for the problem: as many tiles of a head as
// have a multiprocessor each.
template <typename F>
auto WithConfig(const GdnCoreParams& p, const F& f) {
  return NumHeads(p) <= 32 ? f(FewConfig<4, 2, 16>())
                           : f(FewConfig<4, 4, 20>());
}
// The same for a layer, where fewer blocks share more of the convolution.
template <typename F>
auto WithLayerConfig(const GdnCoreParams& p, const F& f) {
  return NumHeads(p) <= 64 ? f(FewConfig<4, 4, 20>())
                           : f(FewConfig<4, 8, 28>());
}

bool FitsTiles(const GdnCoreParams& p, const Launch& on) {
  return on.type == ElementType::kBFloat16 && p.solver == TreeSolver::kBlocks &&
         p.shape.key_dim == kKeyDim && p.shape.value_dim == kValueDim &&
         NodeCapacity(p.batch) <= kMaxNodes;
}

}  // namespace

bool CanVerifyFew(const GdnCoreParams& p, const Launch& on) {
  return FitsTiles(p, on) && NumHeads(p) <= 64 &&
         WithConfig(p, [](auto config) {
           return kSharedBytes<decltype(config), false> <= MaxSharedBytes();
         });
}

absl::Status GdnVerifyFew(const GdnCoreParams& p, const Launch& on) {
  return WithConfig(p, [&](auto config) {
    return LaunchFew<decltype(config), false>(
        {.conv = {}, .core = p, .norm = {}}, on);
  });
}

bool CanVerifyLayer(const GdnVerifyLayerParams& p, const Launch& on) {
  return on.overlaps && FitsTiles(p.core, on) && FitsVectorConv(p.core.shape) &&
         NumHeads(p.core) <= 128 && WithLayerConfig(p.core, [](auto config) {
           return kSharedBytes<decltype(config), true> <= MaxSharedBytes();
         });
}

absl::Status GdnVerifyLayer(const GdnVerifyLayerParams& p, const Launch& on) {
  return WithLayerConfig(p.core, [&](auto config) {
    return LaunchFew<decltype(config), true>(p, on);
  });
}

}  // namespace bole::cuda
