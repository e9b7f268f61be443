// Accepted paths become part of their sequences, in all layers, in one launch.
//
// A block takes 64 rows of a head's state through all nodes of the path in
// registers: four rows for each group of eight lanes, so that what a lane does
// for a node beside the recurrence is shared by 64 elements. The block's next
// rows and nodes are on their way meanwhile. Windows, keys and values move
// while the first ones are.
#include "kernels/cuda/gdn/commit_path.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/cuda/attention/compact_kv.cuh"
#include "kernels/cuda/check.h"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/gdn/fold_nodes.cuh"
#include "kernels/cuda/gdn/fold_tiles.cuh"
#include "kernels/cuda/gdn/gdn_state_rows.cuh"
#include "kernels/cuda/gdn/gdn_views.cuh"
#include "kernels/cuda/gdn/gdn_windows.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/mma.cuh"

namespace bole::cuda {
namespace {

constexpr unsigned kAllLanes = 0xffffffffu;

// What a launch does. Parts that are not wanted have no columns.
struct CommitWork {
  GdnCommitParams linear;
  KvMove kv;
  int window_words;  // Of a row of the windows.
  int window_parts;  // Blocks that move one request's window of a layer.
  int kv_parts;      // Blocks that move one request's keys and values.
  bool reads_early;  // States, while the kernel before still runs.
};

// In shared memory, followed by as many requests as there may be.
template <typename T>
struct CommitShared {
  float4 state[kFoldRows * kFoldVectors][kFoldThreads];  // Each thread's own.
  RawNodes<T> raw;
  union {
    Nodes nodes;
    KvPlaces<kFoldThreads> places;
  };
  FoldTile tiles[2];
  int num_active;
  ActiveRequest active[1];
};

template <typename T>
size_t SharedBytes(int max_requests) {
  return sizeof(CommitShared<T>) + (max_requests - 1) * sizeof(ActiveRequest);
}

// By the first warp. Rows are for LoadRows().
template <typename T>
__device__ void ListActive(const GdnCommitParams& p, CommitShared<T>& shared) {
  const int lane = static_cast<int>(threadIdx.x);
  int found = 0;
  for (int begin = 0; begin < p.batch.max_requests; begin += 32) {
    const int request = begin + lane;
    ActiveRequest active = {};
    if (request < p.batch.max_requests) {
      const int first = p.path.first[request];
      active.request = request;
      active.slot = p.batch.slot[request];
      active.first = first;
      active.count = p.path.first[request + 1] - first;
      active.from_zero = p.batch.committed[request] == 0;
    }
    const unsigned mask = __ballot_sync(kAllLanes, active.count > 0);
    if (active.count > 0) {
      shared.active[found + __popc(mask & ((1u << lane) - 1))] = active;
    }
    found += __popc(mask);
  }
  if (lane == 0) shared.num_active = found;
}

template <typename T>
__device__ void LoadRows(const GdnCommitParams& p, CommitShared<T>& shared) {
  for (int i = static_cast<int>(threadIdx.x);
       i < kFoldNodes * shared.num_active; i += kFoldThreads) {
    ActiveRequest& to = shared.active[i / kFoldNodes];
    const int node = i % kFoldNodes;
    if (node < to.count) to.row[node] = p.path.row[to.first + node];
  }
}

// Queues the copies of a tile's state: each thread's own.
template <typename T>
__device__ void StageState(const GdnCommitParams& p, const FoldTile& tile,
                           CommitShared<T>& shared) {
  if (tile.WarpValue() >= p.shape.value_dim) return;
  const float* state = tile.WarpState(p) + static_cast<int>(threadIdx.x % 32) /
                                               kRowLanes * kStateKeyDim;
  const bool valid = !tile.request->from_zero;
#pragma unroll
  for (int v = 0; v < kFoldRows * kFoldVectors; ++v) {
    CopyAsync16(SharedAddress(&shared.state[v][threadIdx.x]),
                state + v / kFoldVectors * kRowGroups * kStateKeyDim +
                    FirstElement(v % kFoldVectors),
                valid);
  }
}

// Queues them for a tile of all requests, before it is known which have paths.
// Requests that do not exist may have any slot.
template <typename T>
__device__ void StageEarly(const GdnCommitParams& p, int index,
                           CommitShared<T>& shared) {
  FoldTile tile(p, shared.active, index);
  const int request = static_cast<int>(tile.request - shared.active);
  ActiveRequest all = {};
  all.slot = __ldcg(p.batch.slot + request);
  all.from_zero = __ldcg(p.batch.committed + request) == 0;
  if (all.slot < 0 || all.slot >= p.states.num_slots) return;
  tile.request = &all;
  StageState(p, tile, shared);
}

using FoldState = StateRows<kFoldRows>;

template <typename T>
__device__ void TakeState(const CommitShared<T>& shared, FoldState& state) {
#pragma unroll
  for (int v = 0; v < kFoldRows * kFoldVectors; ++v) {
    const float4 x = shared.state[v][threadIdx.x];
    float* to = &state.value[v / kFoldVectors][4 * (v % kFoldVectors)];
    to[0] = x.x;
    to[1] = x.y;
    to[2] = x.z;
    to[3] = x.w;
  }
}

// Words of one request's window of a layer.
__device__ void MoveWindow(const CommitWork& work, const ActiveRequest& request,
                           int layer, int word) {
  if (word >= work.window_words) return;
  const GdnCommitParams& p = work.linear;
  const int64_t slot_layer =
      static_cast<int64_t>(request.slot) * p.states.num_layers + layer;
  ShiftWindow<uint4>(
      {.raw = reinterpret_cast<const uint4*>(p.factors.raw) +
              static_cast<int64_t>(layer) * p.factors.layer_rows *
                  work.window_words +
              word,
       .path = p.path.row + request.first,
       .count = request.count,
       .from_zero = request.from_zero,
       .window = reinterpret_cast<uint4*>(p.states.window) +
                 slot_layer * p.shape.conv_taps * work.window_words + word,
       .taps = p.shape.conv_taps,
       .row_words = work.window_words});
}

// The block's share of windows, keys and values. Overwrites the nodes.
template <typename T>
__device__ void MoveRows(const CommitWork& work, CommitShared<T>& shared) {
  const int thread = static_cast<int>(threadIdx.x);
  const int layers = work.linear.num_layers;
  const int kv_parts = work.kv_parts * shared.num_active;
  const int parts = kv_parts + work.window_parts * layers * shared.num_active;
  // The last blocks begin: the first ones may have a tile more.
  for (int part = static_cast<int>(gridDim.x - 1 - blockIdx.x); part < parts;
       part += static_cast<int>(gridDim.x)) {
    if (part < kv_parts) {
      MovePath<uint4, kFoldThreads>(
          work.kv, shared.active[part / work.kv_parts].request,
          static_cast<int64_t>(part % work.kv_parts) * kFoldThreads + thread,
          shared.places);
      continue;
    }
    int index = part - kv_parts;
    const int word = index % work.window_parts * kFoldThreads + thread;
    index /= work.window_parts;
    MoveWindow(work, shared.active[index / layers],
               work.linear.first_layer + index % layers, word);
  }
}

// The block's tiles, gridDim.x apart. The first one, tiles[0], has been staged.
template <typename T>
__device__ void FoldTiles(const GdnCommitParams& p, int num_tiles,
                          CommitShared<T>& shared) {
  int parity = 0;
  for (int index = static_cast<int>(blockIdx.x); index < num_tiles;
       parity ^= 1) {
    index += static_cast<int>(gridDim.x);
    const FoldTile& tile = shared.tiles[parity];
    const FoldTile& next = shared.tiles[parity ^ 1];
    WaitForCopies<0>();
    __syncthreads();  // All copies are there, and `nodes` have been read.
    const int count = tile.request->count;
    FoldState state(0, kFoldWarpValues);
    TakeState(shared, state);
    ConvertNodes(shared.raw, min(count, kFoldNodes), shared.nodes);
    if (threadIdx.x == 0 && index < num_tiles) {
      shared.tiles[parity ^ 1] = FoldTile(p, shared.active, index);
    }
    __syncthreads();
    if (index < num_tiles) {
      StageState(p, next, shared);
      StageNodes(p, next, shared.raw);
      CommitCopies();
    }
    FoldNodes(shared.nodes, min(count, kFoldNodes), state);
    for (int begin = kFoldNodes; begin < count; begin += kFoldNodes) {
      __syncthreads();
      LoadNodes<T>(p, tile, begin, min(count - begin, kFoldNodes),
                   shared.nodes);
      __syncthreads();
      FoldNodes(shared.nodes, min(count - begin, kFoldNodes), state);
    }
    if (tile.WarpValue() < p.shape.value_dim) state.Store(tile.WarpState(p));
  }
}

template <typename T>
__global__ void __launch_bounds__(kFoldThreads, kFoldBlocksPerSm)
    CommitPathKernel(const __grid_constant__ CommitWork work) {
  extern __shared__ __align__(16) unsigned char memory[];
  auto& shared = *reinterpret_cast<CommitShared<T>*>(memory);
  const GdnCommitParams& p = work.linear;
  const int block = static_cast<int>(blockIdx.x);
  // Mostly all requests have paths, and what is staged first is known.
  const bool stages_early =
      work.reads_early && block < NumTiles(p, p.batch.max_requests);
  if (stages_early) StageEarly(p, block, shared);
  WaitForPrevious();
  StartNext();
  if (threadIdx.x < 32) ListActive(p, shared);
  __syncthreads();
  const int num_tiles = NumTiles(p, shared.num_active);
  const bool has_tile = block < num_tiles;
  if (has_tile) {
    const FoldTile first(p, shared.active, block);
    if (threadIdx.x == 0) shared.tiles[0] = first;
    if (!stages_early || shared.num_active < p.batch.max_requests) {
      CommitCopies();
      WaitForCopies<0>();
      StageState(p, first, shared);
    }
  }
  LoadRows(p, shared);
  __syncthreads();
  if (has_tile) StageNodes(p, shared.tiles[0], shared.raw);
  CommitCopies();
  MoveRows(work, shared);
  FoldTiles(p, num_tiles, shared);
  WaitForCopies<0>();  // Also where there was no tile after all.
}

int NumMultiprocessors() {
  int device = 0;
  int count = 1;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device);
  return count;
}

absl::Status LaunchCommit(const char* what, const CommitWork& work,
                          const Launch& on) {
  const GdnCommitParams& p = work.linear;
  void (*kernel)(CommitWork) = nullptr;
  size_t shared_bytes = 0;
  WithElement(on.type, [&](auto element) {
    using T = decltype(element);
    kernel = &CommitPathKernel<T>;
    shared_bytes = SharedBytes<T>(p.batch.max_requests);
  });
  const absl::Status allowed = ToStatus(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                           static_cast<int>(shared_bytes)),
      what);
  if (!allowed.ok()) return allowed;
  const int tiles =
      p.num_layers * p.shape.value_heads *
      ((p.shape.value_dim + kFoldTileValues - 1) / kFoldTileValues);
  const int needed = std::max(p.batch.max_requests * tiles, work.kv_parts);
  const int blocks = std::min(needed, kFoldBlocksPerSm * NumMultiprocessors());
  return LaunchDependent(what, kernel,
                         {.grid = dim3(static_cast<unsigned>(blocks)),
                          .block = kFoldThreads,
                          .shared_bytes = shared_bytes},
                         on, work);
}

int PartsOf(int64_t words) {
  return static_cast<int>((words + kFoldThreads - 1) / kFoldThreads);
}

}  // namespace

bool CanFoldStates(const GdnCommitParams& params) {
  return params.shape.key_dim == kStateKeyDim &&
         params.shape.value_dim % kFoldWarpValues == 0 &&
         params.num_layers > 0 && params.factors.node_states == nullptr;
}

absl::Status FoldStates(const GdnCommitParams& params, const Launch& on) {
  return LaunchCommit("GdnCommitStates",
                      {.linear = params,
                       .kv = {},
                       .window_words = 0,
                       .window_parts = 0,
                       .kv_parts = 0,
                       .reads_early = false},
                      on);
}

bool CanCommitPath(const GdnCommitParams& linear,
                   const CompactKvParams& attention, const Launch& on) {
  const size_t bytes = ElementBytes(on.type);
  return CanFoldStates(linear) && linear.shape.conv_taps <= kMaxWindowTaps &&
         linear.shape.conv_width() * bytes % sizeof(uint4) == 0 &&
         attention.shape.head_dim * bytes % sizeof(uint4) == 0;
}

absl::Status CommitPath(const GdnCommitParams& linear,
                        const CompactKvParams& attention, const Launch& on) {
  const size_t bytes = ElementBytes(on.type);
  CommitWork work = {.linear = linear,
                     .kv = {.p = attention,
                            .units = static_cast<int>(attention.shape.head_dim *
                                                      bytes / sizeof(uint4))},
                     .window_words = static_cast<int>(
                         linear.shape.conv_width() * bytes / sizeof(uint4)),
                     .window_parts = 0,
                     .kv_parts = 0,
                     .reads_early = true};
  work.window_parts = PartsOf(work.window_words);
  work.kv_parts = PartsOf(2 * work.kv.pool_columns());
  return LaunchCommit("CommitPath", work, on);
}

}  // namespace bole::cuda
