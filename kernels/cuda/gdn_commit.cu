// The exact fold of accepted paths into the states of all layers: one launch,
// one read and one write of every state.
#include <algorithm>
#include <cstdint>

#include "kernels/cuda/check.h"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/gdn_recurrence.cuh"
#include "kernels/cuda/gdn_rows.cuh"
#include "kernels/cuda/gdn_state_rows.cuh"
#include "kernels/cuda/gdn_views.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/operators.h"

namespace bole::cuda {
namespace {

// What a block folds: a tile of a head's state of one request and layer.
struct CommitHead {
  int layer;
  int head;
  int request;
  const int32_t* rows;  // The path.
  int count;
  float* state;  // [dv, dk]
  bool from_zero;

  // Grid: value tiles, layers and heads, requests.
  __device__ explicit CommitHead(const GdnCommitParams& p)
      : layer(p.first_layer +
              static_cast<int>(blockIdx.y) / p.shape.value_heads),
        head(static_cast<int>(blockIdx.y) % p.shape.value_heads),
        request(blockIdx.z),
        rows(p.path.row + p.path.first[request]),
        count(p.path.first[request + 1] - p.path.first[request]),
        state(HeadState(p.shape, p.states, p.batch.slot[request], layer, head)),
        from_zero(p.batch.committed[request] == 0) {}
};

constexpr int kFoldRows = 4;  // Of a lane.
constexpr int kFoldWarps = 4;
constexpr int kFoldThreads = 32 * kFoldWarps;
constexpr int kValuesPerBlock = kFoldWarps * StateRows<kFoldRows>::kPerWarp;
constexpr int kStagedRows = 16;

// Rows of the path, as every warp of the block reads them.
struct StagedRows {
  float k[kStagedRows][kStateKeyDim];  // Normalised.
  float v[kStagedRows][kValuesPerBlock];
  float decay[kStagedRows];
  float beta[kStagedRows];
};

template <typename T>
__device__ void Stage(const GdnCommitParams& p, const CommitHead& on, int done,
                      int count, StagedRows& staged) {
  static_assert(kFoldThreads == kStateKeyDim);
  const FactorRows<T> factors(p.shape, p.factors, on.layer);
  const int key_head = KeyHead(p.shape, on.head);
  const int thread = threadIdx.x;
  const int first_value = static_cast<int>(blockIdx.x) * kValuesPerBlock;
#pragma unroll 4
  for (int i = 0; i < count; ++i) {
    const int row = on.rows[done + i];
    staged.k[i][thread] = __fmul_rn(ToFloat(factors.k(row, key_head)[thread]),
                                    factors.k_scale(row, key_head));
    const int value = first_value + thread;
    if (thread < kValuesPerBlock && value < p.shape.value_dim) {
      staged.v[i][thread] = ToFloat(factors.v(row, on.head)[value]);
    }
  }
  if (thread < count) {
    const int row = on.rows[done + thread];
    staged.decay[thread] = expf(factors.log_decay(row, on.head));
    staged.beta[thread] = factors.beta(row, on.head);
  }
}

// Keys of 128.
template <typename T>
__global__ void __launch_bounds__(kFoldThreads) FoldKernel(GdnCommitParams p) {
  __shared__ StagedRows staged;
  WaitForPrevious();
  StartNext();
  const CommitHead on(p);
  if (on.count == 0) return;
  const int in_block =
      static_cast<int>(threadIdx.x / 32) * StateRows<kFoldRows>::kPerWarp;
  const int tile = static_cast<int>(blockIdx.x) * kValuesPerBlock;
  StateRows<kFoldRows> state(tile + in_block, p.shape.value_dim);
  if (on.from_zero) {
    state.Clear();
  } else {
    state.Load(on.state);
  }
  for (int done = 0; done < on.count; done += kStagedRows) {
    const int count = min(on.count - done, kStagedRows);
    if (done > 0) __syncthreads();
    Stage<T>(p, on, done, count, staged);
    __syncthreads();
    for (int i = 0; i < count; ++i) {
      KeyElements k;
      LoadElements(staged.k[i], k);
#pragma unroll
      for (int r = 0; r < kFoldRows; ++r) {
        AdvanceRow(state.value[r], k, staged.decay[i], staged.beta[i],
                   staged.v[i][state.row(r) - tile]);
      }
    }
  }
  state.Store(on.state);
}

// Keys of any dimension to 256.
template <typename T, int kPerLane>
__global__ void __launch_bounds__(32 * kRowWarps)
    CommitKernel(GdnCommitParams p) {
  WaitForPrevious();
  StartNext();
  const CommitHead on(p);
  if (on.count == 0) return;
  Run<T, kPerLane>({.shape = p.shape,
                    .factors = FactorRows<T>(p.shape, p.factors, on.layer),
                    .head = on.head,
                    .state = on.state,
                    .from_zero = on.from_zero,
                    .rows = on.rows,
                    .first = 0,
                    .count = on.count,
                    .core = nullptr});
}

}  // namespace

absl::Status GdnCommitStates(const GdnCommitParams& params, const Launch& on) {
  void (*kernel)(GdnCommitParams) = nullptr;
  const bool fold = params.shape.key_dim == kStateKeyDim;
  WithElement(on.type, [&](auto element) {
    using T = decltype(element);
    if (fold) {
      kernel = &FoldKernel<T>;
      return;
    }
    WithPerLane(params.shape.key_dim, [&](auto per_lane) {
      kernel = &CommitKernel<T, decltype(per_lane)::value>;
    });
  });
  if (kernel == nullptr) return KeysTooWide("GdnCommitStates", params.shape);
  const int values = fold ? kValuesPerBlock : kRowsPerBlock;
  const LaunchShape shape = {
      .grid = dim3((params.shape.value_dim + values - 1) / values,
                   params.num_layers * params.shape.value_heads,
                   params.batch.max_requests),
      .block = dim3(fold ? kFoldThreads : 32 * kRowWarps)};
  return LaunchDependent("GdnCommitStates", kernel, shape, on, params);
}

}  // namespace bole::cuda
