// Makes accepted paths part of their sequences, in all layers, in one launch.
//
// A block advances 64 rows of a head's state through all nodes of the path in
// registers. Each group of eight lanes has four rows, so that the work of a
// lane for a node besides the recurrence is amortised over 64 elements. The
// block's next rows and nodes are loaded meanwhile. Windows, keys and values
// are moved while the first rows and nodes are loaded. Equal shares take
// unequal times, so blocks claim tiles dynamically.
#include "kernels/cuda/gdn/commit_path.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/cuda/attention/compact_kv.cuh"
#include "kernels/cuda/check.h"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/gdn/fold_nodes.cuh"
#include "kernels/cuda/gdn/fold_states.cuh"
#include "kernels/cuda/gdn/fold_tiles.cuh"
#include "kernels/cuda/gdn/gdn_state_rows.cuh"
#include "kernels/cuda/gdn/gdn_views.cuh"
#include "kernels/cuda/gdn/gdn_windows.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/mma.cuh"

namespace bole::cuda {
namespace {

constexpr unsigned kAllLanes = 0xffffffffu;

// The work of a launch. Parts that were not requested have no columns.
struct CommitWork {
  GdnCommitParams linear;
  FoldPlan plan;
  int32_t* num_claimed;  // 0 before and after.
  KvMove kv;
  int window_words;  // Words of a row of the windows.
  int window_parts;  // Blocks that move one request's window of a layer.
  int kv_parts;      // Blocks that move one request's keys and values.
  bool reads_early;  // States are read while the previous kernel runs.
};

// A block's shared memory. `active` extends beyond the struct, to as many
// requests as there may be.
template <typename T>
struct CommitShared {
  StagedRows::Rows state[kFoldWarps];
  RawNodes<T> raw;
  union {
    Nodes nodes;
    KvPlaces<kFoldThreads> places;
  };
  uint64_t arrived[kFoldWarps];
  int next;  // The block's next tile.
  int num_active;
  ActiveRequest active[1];
};

template <typename T>
size_t SharedBytes(int max_requests) {
  return sizeof(CommitShared<T>) + (max_requests - 1) * sizeof(ActiveRequest);
}

// Lists the requests that have paths. Called by the first warp.
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
#pragma unroll
    for (int i = 0; i < kFoldNodes; ++i) {
      if (i < active.count) active.row[i] = p.path.row[active.first + i];
    }
    const unsigned mask = __ballot_sync(kAllLanes, active.count > 0);
    if (active.count > 0) {
      shared.active[found + __popc(mask & ((1u << lane) - 1))] = active;
    }
    found += __popc(mask);
  }
  if (lane == 0) shared.num_active = found;
}

// The warp's old rows of a tile, which belongs to a request with a path; null
// stands for zeros.
__device__ const float* OldRows(const GdnCommitParams& p, const FoldTile& tile,
                                const ActiveRequest& request) {
  return request.from_zero ? nullptr : tile.WarpRows(p, request.slot);
}

// The same if tiles are counted over all requests, before it is known which of
// them have paths. Requests that do not exist may have any slot.
__device__ const float* EarlyRows(const GdnCommitParams& p,
                                  const FoldTile& tile) {
  const int slot = __ldcg(p.batch.slot + tile.active);
  const bool from_zero = __ldcg(p.batch.committed + tile.active) == 0;
  if (from_zero || slot < 0 || slot >= p.states.num_slots) return nullptr;
  return tile.WarpRows(p, slot);
}

// Prefetches the beginning of the paths into L2, because all blocks read it
// first after the wait and it may have been evicted since the previous launch.
__device__ void FetchPaths(const RowPath& path) {
  asm volatile(
      "prefetch.global.L2 [%0];" ::"l"(__cvta_generic_to_global(path.first)));
  asm volatile(
      "prefetch.global.L2 [%0];" ::"l"(__cvta_generic_to_global(path.row)));
}

// Moves a word of each row of one request's window of a layer.
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
       .path = request.count <= kFoldNodes ? request.row
                                           : p.path.row + request.first,
       .count = request.count,
       .from_zero = request.from_zero,
       .window = reinterpret_cast<uint4*>(p.states.window) +
                 slot_layer * p.shape.conv_taps * work.window_words + word,
       .taps = p.shape.conv_taps,
       .row_words = work.window_words});
}

// Moves the block's share of windows, keys and values. Overwrites the nodes.
template <typename T>
__device__ void MoveRows(const CommitWork& work, CommitShared<T>& shared) {
  const int thread = static_cast<int>(threadIdx.x);
  const int layers = work.linear.num_layers;
  const int kv_parts = work.kv_parts * shared.num_active;
  const int parts = kv_parts + work.window_parts * layers * shared.num_active;
  // The last blocks take the first parts, because the first blocks may have one
  // tile more.
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

// Claims a tile after those that the blocks begin with. Every block that has
// tiles claims more until none are left, and the last claim resets the count to
// 0 for the next launch.
__device__ int ClaimTile(const CommitWork& work, int num_tiles) {
  const int blocks = static_cast<int>(gridDim.x);
  const int claims = max(num_tiles - blocks, 0) + min(num_tiles, blocks);
  const int claim = atomicAdd(work.num_claimed, 1);
  if (claim == claims - 1) *work.num_claimed = 0;
  return blocks + claim;
}

// Processes the block's tiles. The first one has been staged.
template <typename T>
__device__ void FoldTiles(const CommitWork& work, int num_tiles,
                          StagedRows& rows, CommitShared<T>& shared) {
  const GdnCommitParams& p = work.linear;
  const bool claims = threadIdx.x == 0;
  int index = static_cast<int>(blockIdx.x);
  FoldTile tile(work.plan, p.first_layer, index);
  int claimed = claims && index < num_tiles ? ClaimTile(work, num_tiles) : 0;
  while (index < num_tiles) {
    FoldState state(0, kFoldWarpValues);
    rows.Take(state);
    if (claims) shared.next = claimed;
    WaitForCopies<0>();
    __syncthreads();  // All copies have arrived, and `nodes` was read.
    index = shared.next;
    const FoldTile next(work.plan, p.first_layer, index);
    if (index < num_tiles) {
      rows.Stage(OldRows(p, next, shared.active[next.active]));
    }
    const ActiveRequest& request = shared.active[tile.active];
    const int count = request.count;
    ConvertNodes(shared.raw, min(count, kFoldNodes), shared.nodes);
    __syncthreads();
    if (index < num_tiles) {
      NodeCopies<T>(p, next).Stage(shared.active[next.active], shared.raw);
      CommitCopies();
    }
    FoldNodes(shared.nodes, min(count, kFoldNodes), state);
    if (claims && index < num_tiles) claimed = ClaimTile(work, num_tiles);
    for (int begin = kFoldNodes; begin < count; begin += kFoldNodes) {
      __syncthreads();
      LoadNodes<T>(p, tile, request, begin, min(count - begin, kFoldNodes),
                   shared.nodes);
      __syncthreads();
      FoldNodes(shared.nodes, min(count - begin, kFoldNodes), state);
    }
    if (float* to = tile.WarpRows(p, request.slot)) state.Store(to);
    tile = next;
  }
}

template <typename T>
__global__ void __launch_bounds__(kFoldThreads, kFoldBlocksPerSm)
    CommitPathKernel(const __grid_constant__ CommitWork work) {
  extern __shared__ __align__(128) unsigned char memory[];
  auto& shared = *reinterpret_cast<CommitShared<T>*>(memory);
  const GdnCommitParams& p = work.linear;
  const int warp = static_cast<int>(threadIdx.x / 32);
  const int block = static_cast<int>(blockIdx.x);
  const FoldTile tile(work.plan, p.first_layer, block);
  StagedRows rows(shared.state[warp], shared.arrived[warp]);
  if (threadIdx.x == 0) FetchPaths(p.path);
  // Usually all requests have paths, so the first tile is known in advance.
  const bool stages_early =
      work.reads_early && block < work.plan.num_tiles(p.batch.max_requests);
  if (stages_early) rows.Stage(EarlyRows(p, tile));
  const NodeCopies<T> nodes(p, tile);
  WaitForPrevious();
  StartNext();
  if (warp == 0) ListActive(p, shared);
  __syncthreads();
  const int num_tiles = work.plan.num_tiles(shared.num_active);
  const bool is_staged =
      stages_early && shared.num_active == p.batch.max_requests;
  if (!is_staged) rows.Drop();
  if (block < num_tiles) {
    const ActiveRequest& request = shared.active[tile.active];
    if (!is_staged) rows.Stage(OldRows(p, tile, request));
    nodes.Stage(request, shared.raw);
    CommitCopies();
  }
  MoveRows(work, shared);
  FoldTiles(work, num_tiles, rows, shared);
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
  const int needed =
      std::max(work.plan.num_tiles(p.batch.max_requests), work.kv_parts);
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

absl::Status FoldStates(const GdnCommitParams& params, int32_t* num_claimed,
                        const Launch& on) {
  return LaunchCommit("GdnCommitStates",
                      {.linear = params,
                       .plan = FoldPlan(params),
                       .num_claimed = num_claimed,
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
                        const CompactKvParams& attention, int32_t* num_claimed,
                        const Launch& on) {
  const size_t bytes = ElementBytes(on.type);
  CommitWork work = {.linear = linear,
                     .plan = FoldPlan(linear),
                     .num_claimed = num_claimed,
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
