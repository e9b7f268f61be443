// Applies rows one after the other to the state of a head. Decode, plain
// prefill and the exact fold of an accepted path share this code, so that a
// commit leaves the bits that decoding would have left.
#ifndef BOLE_KERNELS_CUDA_GDN_GDN_ROWS_CUH_
#define BOLE_KERNELS_CUDA_GDN_GDN_ROWS_CUH_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/gdn/gdn_recurrence.cuh"
#include "kernels/cuda/gdn/gdn_state_rows.cuh"
#include "kernels/cuda/gdn/gdn_views.cuh"
#include "kernels/gdn.h"

namespace bole::cuda {

// A warp holds kRowsPerWarp rows of a head's state, all of the key dimension.
inline constexpr int kRowWarps = 8;
inline constexpr int kRowsPerWarp = 4;
inline constexpr int kRowsPerBlock = kRowWarps * kRowsPerWarp;

// The rows that are applied to the state of one request, layer and head.
template <typename T>
struct HeadRun {
  const GdnShape& shape;
  FactorRows<T> factors;
  int head;
  int first_value;  // The first value of the block.
  float* state;     // [dv, dk] of the head.
  bool from_zero;
  // Rows: row[i] if there is a list, else first + i.
  const int32_t* rows;
  int first;
  int count;
  // Where queries and outputs are; null if no outputs are wanted.
  const GdnCoreParams* core;

  __device__ int row(int i) const { return rows ? rows[i] : first + i; }
};

template <typename T, int kPerLane>
__device__ void Run(const HeadRun<T>& run) {
  const GdnShape& s = run.shape;
  const int first_value =
      run.first_value + static_cast<int>(threadIdx.x / 32) * kRowsPerWarp;
  WarpVector<kPerLane> state[kRowsPerWarp];
#pragma unroll
  for (int r = 0; r < kRowsPerWarp; ++r) {
    state[r].Clear();
    const int value = first_value + r;
    if (run.from_zero || value >= s.value_dim) continue;
    state[r].Load(run.state + static_cast<int64_t>(value) * s.key_dim,
                  s.key_dim);
  }
  const int key_head = KeyHead(s, run.head);
  for (int i = 0; i < run.count; ++i) {
    const int row = run.row(i);
    WarpVector<kPerLane> k;
    k.LoadScaled(run.factors.k(row, key_head),
                 run.factors.k_scale(row, key_head), s.key_dim);
    WarpVector<kPerLane> q;
    T* out = nullptr;
    if (run.core != nullptr) {
      const int64_t key_row =
          static_cast<int64_t>(row) * s.key_heads + key_head;
      q.LoadScaled(As<T>(run.core->q) + key_row * s.key_dim,
                   run.core->q_scale[key_row], s.key_dim);
      out =
          As<T>(run.core->out) +
          (static_cast<int64_t>(row) * s.value_heads + run.head) * s.value_dim;
    }
    const T* v = run.factors.v(row, run.head);
    const float decay = expf(run.factors.log_decay(row, run.head));
    const float beta = run.factors.beta(row, run.head);
#pragma unroll
    for (int r = 0; r < kRowsPerWarp; ++r) {
      const int value = first_value + r;
      if (value >= s.value_dim) continue;
      Advance(state[r], k, decay, beta, ToFloat(v[value]));
      if (out == nullptr) continue;
      const float o = Dot(state[r], q);
      if (threadIdx.x % 32 == 0) out[value] = FromFloat<T>(o);
    }
  }
#pragma unroll
  for (int r = 0; r < kRowsPerWarp; ++r) {
    const int value = first_value + r;
    if (value >= s.value_dim) continue;
    state[r].Store(run.state + static_cast<int64_t>(value) * s.key_dim,
                   s.key_dim);
  }
}

// Keys of 128: a block of kTileThreads holds kTileValues rows.
inline constexpr int kTileRows = 2;  // Rows of a lane.
inline constexpr int kTileThreads = 128;
inline constexpr int kTileValues =
    kTileThreads / 32 * StateRows<kTileRows>::kPerWarp;

template <typename T>
__device__ void RunTile(const HeadRun<T>& run) {
  const GdnShape& s = run.shape;
  StateRows<kTileRows> state(
      run.first_value +
          static_cast<int>(threadIdx.x / 32) * StateRows<kTileRows>::kPerWarp,
      s.value_dim);
  if (run.from_zero) {
    state.Clear();
  } else {
    state.Load(run.state);
  }
  const int key_head = KeyHead(s, run.head);
  for (int i = 0; i < run.count; ++i) {
    const int row = run.row(i);
    KeyElements k;
    LoadScaledElements(run.factors.k(row, key_head),
                       run.factors.k_scale(row, key_head), k);
    KeyElements q = {};
    T* out = nullptr;
    if (run.core != nullptr) {
      const int64_t key_row =
          static_cast<int64_t>(row) * s.key_heads + key_head;
      LoadScaledElements(As<T>(run.core->q) + key_row * kStateKeyDim,
                         run.core->q_scale[key_row], q);
      out =
          As<T>(run.core->out) +
          (static_cast<int64_t>(row) * s.value_heads + run.head) * s.value_dim;
    }
    const float decay = expf(run.factors.log_decay(row, run.head));
    const float beta = run.factors.beta(row, run.head);
    const T* v = run.factors.v(row, run.head);
#pragma unroll
    for (int r = 0; r < kTileRows; ++r) {
      const int value = state.row(r);
      const bool is_value = value < s.value_dim;
      AdvanceRow(state.value[r], k, decay, beta,
                 is_value ? ToFloat(v[value]) : 0.0f);
      if (out == nullptr) continue;
      const float o = DotOfRow(state.value[r], q);
      if (is_value && threadIdx.x % kRowLanes == 0) {
        out[value] = FromFloat<T>(o);
      }
    }
  }
  state.Store(run.state);
}

inline absl::Status KeysTooWide(const char* what, const GdnShape& shape) {
  return absl::UnimplementedError(absl::StrCat(
      what, ": keys of ", shape.key_dim, "; the kernels hold up to 256"));
}

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_GDN_GDN_ROWS_CUH_
