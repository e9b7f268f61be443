// The exact fold of accepted paths into the states of all layers: one launch,
// one read and one write of every state.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/cuda/check.h"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/gdn_recurrence.cuh"
#include "kernels/cuda/gdn_rows.cuh"
#include "kernels/cuda/gdn_state_rows.cuh"
#include "kernels/cuda/gdn_views.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/operators.h"

namespace bole::cuda {
namespace {

// A tile of a head's state of one request and layer.
struct CommitTile {
  int layer;
  int head;
  int request;
  int first_value;
  const int32_t* rows;  // The path.
  int count;
  float* state;  // [dv, dk] of the head.
  bool from_zero;

  __device__ CommitTile(const GdnCommitParams& p, int values, int index) {
    const int tiles = (p.shape.value_dim + values - 1) / values;
    first_value = index % tiles * values;
    index /= tiles;
    head = index % p.shape.value_heads;
    index /= p.shape.value_heads;
    layer = p.first_layer + index % p.num_layers;
    request = index / p.num_layers;
    const int first = p.path.first[request];
    rows = p.path.row + first;
    count = p.path.first[request + 1] - first;
    state = HeadState(p.shape, p.states, p.batch.slot[request], layer, head);
    from_zero = p.batch.committed[request] == 0;
  }
};

int NumTiles(const GdnCommitParams& p, int values) {
  const int tiles = (p.shape.value_dim + values - 1) / values;
  return p.batch.max_requests * p.num_layers * p.shape.value_heads * tiles;
}

constexpr int kFoldRows = 2;  // Of a lane.
constexpr int kFoldWarps = 4;
constexpr int kFoldThreads = 32 * kFoldWarps;
constexpr int kFoldValues = kFoldWarps * StateRows<kFoldRows>::kPerWarp;
constexpr int kStagedRows =
    16;  // Of the path; later ones are read as they come.
constexpr int kBlocksPerSm = 4;

// Copies 4 bytes to shared memory behind the caller's back.
__device__ inline void CopyAsync4(uint32_t to, const float* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to),
               "l"(__cvta_generic_to_global(from))
               : "memory");
}

// What a tile needs, copied while the tile before is computed.
template <typename T>
struct StagedTile {
  float state[kFoldValues][kStateKeyDim];
  T k[kStagedRows][kStateKeyDim];
  T v[kStagedRows][kFoldValues];
  float k_scale[kStagedRows];
  float log_decay[kStagedRows];
  float beta[kStagedRows];
};

// Queues the copies of a tile.
template <typename T>
__device__ void Stage(const GdnCommitParams& p, const CommitTile& tile,
                      StagedTile<T>& to) {
  constexpr int kPerChunk = 16 / sizeof(T);
  constexpr int kKeyChunks = kStateKeyDim / kPerChunk;
  constexpr int kValueChunks = kFoldValues / kPerChunk;
  const int thread = threadIdx.x;
  const float* state = tile.state + tile.first_value * kStateKeyDim;
#pragma unroll 8
  for (int i = 4 * thread; i < kFoldValues * kStateKeyDim;
       i += 4 * kFoldThreads) {
    CopyAsync16(SharedAddress(&to.state[0][0] + i), state + i, !tile.from_zero);
  }
  const FactorRows<T> factors(p.shape, p.factors, tile.layer);
  const int key_head = KeyHead(p.shape, tile.head);
  const int count = min(tile.count, kStagedRows);
  for (int i = thread; i < count * (kKeyChunks + kValueChunks);
       i += kFoldThreads) {
    const int step = i / (kKeyChunks + kValueChunks);
    const int chunk = i % (kKeyChunks + kValueChunks);
    const int row = tile.rows[step];
    if (chunk < kKeyChunks) {
      CopyAsync16(SharedAddress(&to.k[step][chunk * kPerChunk]),
                  factors.k(row, key_head) + chunk * kPerChunk, true);
    } else {
      const int value = (chunk - kKeyChunks) * kPerChunk;
      CopyAsync16(SharedAddress(&to.v[step][value]),
                  factors.v(row, tile.head) + tile.first_value + value, true);
    }
  }
  if (thread < count) {
    const int row = tile.rows[thread];
    CopyAsync4(SharedAddress(&to.k_scale[thread]),
               &factors.k_scale(row, key_head));
    CopyAsync4(SharedAddress(&to.log_decay[thread]),
               &factors.log_decay(row, tile.head));
    CopyAsync4(SharedAddress(&to.beta[thread]), &factors.beta(row, tile.head));
  }
}

using FoldState = StateRows<kFoldRows>;

// `v`: of the tile's values.
template <typename T>
__device__ void FoldRow(const KeyElements& k, float log_decay, float beta,
                        const T* v, FoldState& state) {
  const float decay = expf(log_decay);
#pragma unroll
  for (int r = 0; r < kFoldRows; ++r) {
    AdvanceRow(state.value[r], k, decay, beta, ToFloat(v[state.row(r)]));
  }
}

template <typename T>
__device__ void Fold(const GdnCommitParams& p, const CommitTile& tile,
                     const StagedTile<T>& staged) {
  FoldState state(static_cast<int>(threadIdx.x / 32) * FoldState::kPerWarp,
                  kFoldValues);
  state.Load(&staged.state[0][0]);
  for (int i = 0; i < min(tile.count, kStagedRows); ++i) {
    KeyElements k;
    LoadScaledElements(staged.k[i], staged.k_scale[i], k);
    FoldRow(k, staged.log_decay[i], staged.beta[i], staged.v[i], state);
  }
  const FactorRows<T> factors(p.shape, p.factors, tile.layer);
  const int key_head = KeyHead(p.shape, tile.head);
  for (int i = kStagedRows; i < tile.count; ++i) {
    const int row = tile.rows[i];
    KeyElements k;
    LoadScaledElements(factors.k(row, key_head), factors.k_scale(row, key_head),
                       k);
    FoldRow(k, factors.log_decay(row, tile.head), factors.beta(row, tile.head),
            factors.v(row, tile.head) + tile.first_value, state);
  }
  state.Store(tile.state + tile.first_value * kStateKeyDim);
}

// Keys of 128 and whole tiles of values: blocks that stay, each with a tile on
// its way while it computes another.
template <typename T>
__global__ void __launch_bounds__(kFoldThreads, kBlocksPerSm)
    FoldKernel(GdnCommitParams p, int num_tiles) {
  extern __shared__ __align__(16) unsigned char shared[];
  auto* staged = reinterpret_cast<StagedTile<T>*>(shared);
  WaitForPrevious();
  StartNext();
  int index = static_cast<int>(blockIdx.x);
  CommitTile tile(p, kFoldValues, index);
  if (tile.count > 0) Stage(p, tile, staged[0]);
  CommitCopies();
  for (int slot = 0; index < num_tiles; slot ^= 1) {
    const int next_index = index + static_cast<int>(gridDim.x);
    const bool is_last = next_index >= num_tiles;
    const CommitTile next(p, kFoldValues, is_last ? index : next_index);
    if (!is_last && next.count > 0) Stage(p, next, staged[slot ^ 1]);
    CommitCopies();
    WaitForCopies<1>();
    __syncthreads();
    if (tile.count > 0) Fold(p, tile, staged[slot]);
    __syncthreads();  // The slot is read, and may be written again.
    tile = next;
    index = next_index;
  }
}

template <typename T>
__device__ HeadRun<T> RunOf(const GdnCommitParams& p, const CommitTile& tile) {
  return {.shape = p.shape,
          .factors = FactorRows<T>(p.shape, p.factors, tile.layer),
          .head = tile.head,
          .first_value = tile.first_value,
          .state = tile.state,
          .from_zero = tile.from_zero,
          .rows = tile.rows,
          .first = 0,
          .count = tile.count,
          .core = nullptr};
}

// Keys of 128. A block for each tile.
template <typename T>
__global__ void __launch_bounds__(kTileThreads)
    TileKernel(GdnCommitParams p, int num_tiles) {
  WaitForPrevious();
  StartNext();
  const CommitTile tile(p, kTileValues, blockIdx.x);
  if (tile.count > 0) RunTile(RunOf<T>(p, tile));
}

// Keys of any dimension to 256. A block for each tile.
template <typename T, int kPerLane>
__global__ void __launch_bounds__(32 * kRowWarps)
    CommitKernel(GdnCommitParams p, int num_tiles) {
  WaitForPrevious();
  StartNext();
  const CommitTile tile(p, kRowsPerBlock, blockIdx.x);
  if (tile.count > 0) Run<T, kPerLane>(RunOf<T>(p, tile));
}

// What runs for a shape.
struct CommitChoice {
  void (*kernel)(GdnCommitParams, int num_tiles) = nullptr;
  int values;  // Of a tile.
  int threads;
  size_t shared_bytes = 0;
  bool stays = false;  // Blocks take tiles one after the other.
};

template <typename T>
CommitChoice Choose(const GdnShape& shape) {
  if (shape.key_dim == kStateKeyDim && shape.value_dim % kFoldValues == 0) {
    return {.kernel = &FoldKernel<T>,
            .values = kFoldValues,
            .threads = kFoldThreads,
            .shared_bytes = 2 * sizeof(StagedTile<T>),
            .stays = true};
  }
  if (shape.key_dim == kStateKeyDim) {
    return {.kernel = &TileKernel<T>,
            .values = kTileValues,
            .threads = kTileThreads};
  }
  CommitChoice choice = {.values = kRowsPerBlock, .threads = 32 * kRowWarps};
  WithPerLane(shape.key_dim, [&](auto per_lane) {
    choice.kernel = &CommitKernel<T, decltype(per_lane)::value>;
  });
  return choice;
}

int NumMultiprocessors() {
  int device = 0;
  int count = 1;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device);
  return count;
}

}  // namespace

absl::Status GdnCommitStates(const GdnCommitParams& params, const Launch& on) {
  CommitChoice choice;
  WithElement(on.type, [&](auto element) {
    choice = Choose<decltype(element)>(params.shape);
  });
  if (choice.kernel == nullptr) {
    return KeysTooWide("GdnCommitStates", params.shape);
  }
  const int num_tiles = NumTiles(params, choice.values);
  int blocks = num_tiles;
  if (choice.stays) {
    blocks = std::min(blocks, kBlocksPerSm * NumMultiprocessors());
    const absl::Status allowed =
        ToStatus(cudaFuncSetAttribute(
                     choice.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                     static_cast<int>(choice.shared_bytes)),
                 "GdnCommitStates: shared memory");
    if (!allowed.ok()) return allowed;
  }
  const LaunchShape shape = {.grid = dim3(static_cast<unsigned>(blocks)),
                             .block = dim3(choice.threads),
                             .shared_bytes = choice.shared_bytes};
  return LaunchDependent("GdnCommitStates", choice.kernel, shape, on, params,
                         num_tiles);
}

}  // namespace bole::cuda
