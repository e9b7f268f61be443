// Gated attention of tree rows over paged keys and values, of any shape.
//
// There is one block for each row and each set of up to 8 query heads of a KV
// head, whose keys and values are read once for the set. Its warps take the
// visible tokens in turn. Each has a softmax of its own that is rescaled when a
// larger score comes; at the end these are merged. A row's bits depend on its
// own query and on the sequence of keys and values it sees, but not on where
// they are stored.
#include <cmath>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/attention/kv_rows.cuh"
#include "kernels/cuda/check.h"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/operators.h"

namespace bole::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kMaxPerLane = 8;
constexpr int kMaxHeadDim = 32 * kMaxPerLane;
// The path's node numbers must fit beside the rest of a block's memory.
constexpr int kMaxMaskWords = 256;

// Loads columns lane, lane + 32, .. of a row of head_dim elements; columns
// beyond it are 0.
template <int kPerLane, typename T>
__device__ void LoadColumns(const T* row, int head_dim,
                            float (&out)[kPerLane]) {
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) {
    const int c = static_cast<int>(threadIdx.x) % 32 + 32 * i;
    out[i] = c < head_dim ? ToFloat(row[c]) : 0.0f;
  }
}

// The query heads of a block: all in the group of one KV head.
struct HeadSet {
  int kv_head;
  int first;  // The first query head.
  int count;
};

// Returns set `index`, where the heads of every KV head are divided into sets
// of at most kHeads.
template <int kHeads>
__device__ HeadSet HeadSetOf(const AttentionShape& s, int index) {
  const int group = s.query_heads / s.kv_heads;
  const int sets = (group + kHeads - 1) / kHeads;
  const int kv_head = index / sets;
  const int first = index % sets * kHeads;
  return {.kv_head = kv_head,
          .first = kv_head * group + first,
          .count = min(kHeads, group - first)};
}

// The tokens that a row sees, in order: the prefix, then its path. KV indices
// are counted from first_key on.
struct Visible {
  int count;
  int committed;
  const int32_t* path;  // Node numbers; null: every node from 0 on.

  __device__ int KvIndex(int i) const {
    return path == nullptr || i < committed ? i
                                            : committed + path[i - committed];
  }
};

// Writes the node numbers of a row's path, ascending, to `path`. The whole
// block takes part, and must synchronise before it reads.
__device__ void ListPath(const RowBatch& batch, int row, int32_t* path) {
  const uint32_t* mask =
      batch.ancestors + static_cast<int64_t>(row) * batch.mask_words;
  const int words = batch.node[row] / 32 + 1;
  for (int w = threadIdx.x; w < words; w += 32 * kWarps) {
    int place = 0;
    for (int before = 0; before < w; ++before) place += __popc(mask[before]);
    for (uint32_t bits = mask[w]; bits != 0; bits &= bits - 1) {
      path[place++] = 32 * w + __ffs(static_cast<int>(bits)) - 1;
    }
  }
}

__device__ Visible VisibleTo(const RowBatch& batch, int row, int32_t* path) {
  const int committed = batch.committed[batch.request[row]];
  if (batch.mask_words == 0) {
    return {.count = committed + batch.node[row] + 1,
            .committed = committed,
            .path = nullptr};
  }
  ListPath(batch, row, path);
  __syncthreads();
  return {.count = committed + batch.depth[row] + 1,
          .committed = committed,
          .path = path};
}

// The attention of kHeads query heads to some of the tokens. Weights are
// exp(score - max); `sum` is their sum and `out` the weighted sum of the
// values. Without tokens, these are -infinity, 0 and 0. A lane holds its
// columns of `out`; the rest is the same in every lane.
template <int kHeads, int kPerLane>
struct Partial {
  float max[kHeads];
  float sum[kHeads];
  float out[kHeads][kPerLane];

  __device__ void Clear() {
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      max[h] = -INFINITY;
      sum[h] = 0;
#pragma unroll
      for (int i = 0; i < kPerLane; ++i) out[h][i] = 0;
    }
  }

  __device__ void Add(int h, float score, const float (&v)[kPerLane]) {
    if (score > max[h]) {
      const float rescale = expf(max[h] - score);
      max[h] = score;
      sum[h] *= rescale;
#pragma unroll
      for (int i = 0; i < kPerLane; ++i) out[h][i] *= rescale;
    }
    const float weight = expf(score - max[h]);
    sum[h] += weight;
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) out[h][i] += weight * v[i];
  }
};

// The queries of a block and the tokens that they see.
struct Task {
  int row;
  HeadSet heads;
  Visible visible;
};

// Adds the visible tokens [first, last), which the warps take in turn.
template <typename T, int kHeads, int kPerLane>
__device__ void AttendTo(const AttentionParams& p, const Task& task, int first,
                         int last, Partial<kHeads, kPerLane>& partial) {
  const int dim = p.shape.head_dim;
  const int64_t q_row = static_cast<int64_t>(task.row) * p.shape.query_heads;
  float q[kHeads][kPerLane];
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    if (h >= task.heads.count) continue;
    LoadColumns(As<T>(p.q) + (q_row + task.heads.first + h) * dim, dim, q[h]);
  }
  const KvRows rows(p.batch, p.shape, p.pages, p.batch.request[task.row]);
  const int64_t distance = rows.Distance(p.layer, task.heads.kv_head);
  const float scale = 1.0f / sqrtf(static_cast<float>(dim));
  const int warp = static_cast<int>(threadIdx.x) / 32;
  for (int i = first + warp; i < last; i += kWarps) {
    const int index = p.first_key + task.visible.KvIndex(i);
    const int64_t at = (rows.Row(index) + distance) * dim;
    float k[kPerLane];
    float v[kPerLane];
    LoadColumns(As<T>(p.pages.k) + at, dim, k);
    LoadColumns(As<T>(p.pages.v) + at, dim, v);
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      if (h >= task.heads.count) continue;
      float dot = 0;
#pragma unroll
      for (int c = 0; c < kPerLane; ++c) dot += q[h][c] * k[c];
      partial.Add(h, WarpSum(dot) * scale, v);
    }
  }
}

// The warps' partial results of one head.
template <int kPerLane>
struct Merge {
  float max[kWarps];
  float sum[kWarps];
  float out[kWarps][32 * kPerLane];

  template <int kHeads>
  __device__ void Put(const Partial<kHeads, kPerLane>& partial, int h) {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if (lane == 0) {
      max[warp] = partial.max[h];
      sum[warp] = partial.sum[h];
    }
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      out[warp][lane + 32 * i] = partial.out[h][i];
    }
  }

  // The softmax-weighted mean of column c over what all warps saw.
  __device__ float Mean(int c) const {
    float largest = max[0];
    for (int w = 1; w < kWarps; ++w) largest = fmaxf(largest, max[w]);
    float total = 0;
    float weights = 0;
    for (int w = 0; w < kWarps; ++w) {
      const float rescale = expf(max[w] - largest);
      total += rescale * out[w][c];
      weights += rescale * sum[w];
    }
    return total / weights;
  }
};

// Grid: rows, sets of query heads.
template <typename T, int kHeads, int kPerLane>
__global__ void __launch_bounds__(32 * kWarps) AttendKernel(AttentionParams p) {
  extern __shared__ int32_t path[];  // [32 mask_words]
  __shared__ Merge<kPerLane> merge;
  WaitForPrevious();
  StartNext();
  const int row = blockIdx.x;
  if (row >= *p.batch.rows.count) return;
  const AttentionShape& s = p.shape;
  const Task task = {.row = row,
                     .heads = HeadSetOf<kHeads>(s, blockIdx.y),
                     .visible = VisibleTo(p.batch, row, path)};

  Partial<kHeads, kPerLane> partial;
  partial.Clear();
  AttendTo<T>(p, task, 0, task.visible.count, partial);

  const T* projected =
      As<T>(p.projected) + static_cast<int64_t>(row) * s.projected_width();
  T* out = As<T>(p.out) + static_cast<int64_t>(row) * s.query_width();
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    if (h >= task.heads.count) continue;
    merge.Put(partial, h);
    __syncthreads();
    const int head = task.heads.first + h;
    const T* gate = projected + (2 * head + 1) * s.head_dim;
    for (int c = threadIdx.x; c < s.head_dim; c += 32 * kWarps) {
      out[head * s.head_dim + c] =
          FromFloat<T>(merge.Mean(c) * Sigmoid(ToFloat(gate[c])));
    }
    __syncthreads();
  }
}

template <typename T, int kHeads, int kPerLane>
absl::Status LaunchAttend(const AttentionParams& params, const Launch& on) {
  const AttentionShape& s = params.shape;
  const int sets = (s.query_heads / s.kv_heads + kHeads - 1) / kHeads;
  const dim3 grid(params.batch.rows.max, s.kv_heads * sets);
  const size_t path_bytes = sizeof(int32_t) * 32 * params.batch.mask_words;
  return LaunchDependent(
      "Attend", &AttendKernel<T, kHeads, kPerLane>,
      {.grid = grid, .block = 32 * kWarps, .shared_bytes = path_bytes}, on,
      params);
}

template <typename T, int kHeads>
absl::Status LaunchWithHeads(const AttentionParams& params, const Launch& on) {
  if (params.shape.head_dim <= 64) {
    return LaunchAttend<T, kHeads, 2>(params, on);
  }
  if (params.shape.head_dim <= 128) {
    return LaunchAttend<T, kHeads, 4>(params, on);
  }
  return LaunchAttend<T, kHeads, kMaxPerLane>(params, on);
}

absl::Status CheckAttend(const AttentionParams& params) {
  const AttentionShape& s = params.shape;
  if (s.head_dim > kMaxHeadDim) {
    return absl::UnimplementedError(
        absl::StrCat("attention over heads of ", s.head_dim,
                     " dimensions; at most ", kMaxHeadDim, " are supported"));
  }
  if (params.batch.mask_words <= kMaxMaskWords) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat("attention with ancestor masks of ", params.batch.mask_words,
                   " words; at most ", kMaxMaskWords, " are supported"));
}

}  // namespace

absl::Status Attend(const AttentionParams& params, const Launch& on) {
  if (absl::Status status = CheckAttend(params); !status.ok()) return status;
  const int group = params.shape.query_heads / params.shape.kv_heads;
  absl::Status (*launch)(const AttentionParams&, const Launch&) = nullptr;
  WithElement(on.type, [&](auto element) {
    using T = decltype(element);
    launch = group <= 4 ? &LaunchWithHeads<T, 4> : &LaunchWithHeads<T, 8>;
  });
  return launch(params, on);
}

}  // namespace bole::cuda
