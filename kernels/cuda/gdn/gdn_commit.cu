// The exact fold of accepted paths into the states of all layers, for
// dimensions that commit_path.cu does not support.
#include <cstdint>

#include "kernels/cuda/check.h"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/gdn/gdn_recurrence.cuh"
#include "kernels/cuda/gdn/gdn_rows.cuh"
#include "kernels/cuda/gdn/gdn_state_rows.cuh"
#include "kernels/cuda/gdn/gdn_views.cuh"
#include "kernels/cuda/launch.cuh"
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

// For keys of 128 dimensions, with a block for each tile.
template <typename T>
__global__ void __launch_bounds__(kTileThreads) TileKernel(GdnCommitParams p) {
  WaitForPrevious();
  StartNext();
  const CommitTile tile(p, kTileValues, blockIdx.x);
  if (tile.count > 0) RunTile(RunOf<T>(p, tile));
}

// For keys of up to 256 dimensions, with a block for each tile.
template <typename T, int kPerLane>
__global__ void __launch_bounds__(32 * kRowWarps)
    CommitKernel(GdnCommitParams p) {
  WaitForPrevious();
  StartNext();
  const CommitTile tile(p, kRowsPerBlock, blockIdx.x);
  if (tile.count > 0) Run<T, kPerLane>(RunOf<T>(p, tile));
}

// The kernel that runs for a shape.
struct CommitChoice {
  void (*kernel)(GdnCommitParams) = nullptr;
  int values;  // Values of a tile.
  int threads;
};

template <typename T>
CommitChoice Choose(const GdnShape& shape) {
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
  const LaunchShape shape = {.grid = dim3(static_cast<unsigned>(num_tiles)),
                             .block = dim3(choice.threads)};
  return LaunchDependent("GdnCommitStates", choice.kernel, shape, on, params);
}

}  // namespace bole::cuda
