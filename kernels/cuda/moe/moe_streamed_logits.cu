// Computes the logits of all experts and of the shared expert's gate.
//
// Warps of a block divide the columns of 16 experts. The router's weights are
// in registers by the time x can be read.
#include <cstdint>

#include "kernels/cuda/bf16x8.cuh"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/moe/moe_lanes.cuh"
#include "kernels/cuda/moe/moe_stream_block.cuh"
#include "kernels/cuda/moe/moe_streamed.h"

namespace bole::cuda {
namespace moe {
namespace {

constexpr int kStepSpans = 2;

// The columns of a matrix that one warp takes, in spans; warps divide them
// evenly. A step is two spans.
struct WarpSpans {
  int first;
  int end;

  __device__ explicit WarpSpans(int columns) {
    const int warp = Warp();
    const int spans = columns / kSpanColumns;
    first = warp * spans / kProductWarps;
    end = (warp + 1) * spans / kProductWarps;
  }
  __device__ int steps() const {
    return (end - first + kStepSpans - 1) / kStepSpans;
  }
  __device__ int SpansOf(int step) const {
    return min(kStepSpans, end - first - step * kStepSpans);
  }
  // The lane's first column of a step.
  __device__ int ColumnOf(int step) const {
    return (first + step * kStepSpans) * kSpanColumns +
           static_cast<int>(threadIdx.x) % 4 * kVector;
  }
};

// A lane's vectors of a row for a step; zeros for what is not there.
__device__ void LoadStep(const BFloat16* row, const WarpSpans& spans, int step,
                         uint4 (&x)[kStepSpans]) {
#pragma unroll
  for (int i = 0; i < kStepSpans; ++i) x[i] = make_uint4(0, 0, 0, 0);
  if (row == nullptr || step >= spans.steps()) return;
#pragma unroll
  for (int i = 0; i < kStepSpans; ++i) {
    if (i < spans.SpansOf(step)) {
      x[i] = LoadVector(row + spans.ColumnOf(step) + i * kSpanColumns);
    }
  }
}

constexpr int kRowsOfBlock = 8;  // Rows of x that a block takes.
constexpr int kAhead = 4;        // Steps whose weights are in registers.

__device__ const BFloat16* ExpertRow(const MoeExperts& m, int e) {
  if (e >= m.num_experts) return static_cast<const BFloat16*>(m.shared_gate);
  return static_cast<const BFloat16*>(m.router) +
         static_cast<int64_t>(e) * m.hidden;
}

// Grid: experts in groups of 16, rows in groups of 8.
__global__ void __launch_bounds__(kProductThreads)
    StreamedLogitsKernel(const __grid_constant__ MoeTask t) {
  StartNext();
  __shared__ float4 parts[kProductThreads];
  const MoeExperts& m = t.experts;
  const int lane = Lane();
  const int first_expert = 16 * static_cast<int>(blockIdx.x) + lane / 4;
  const WarpSpans spans(m.hidden);
  const BFloat16* low = ExpertRow(m, first_expert);
  const BFloat16* high = ExpertRow(m, first_expert + 8);
  uint4 lows[kAhead][kStepSpans];
  uint4 highs[kAhead][kStepSpans];
  const auto load = [&](int step, int slot) {
    LoadStep(low, spans, step, lows[slot]);
    LoadStep(high, spans, step, highs[slot]);
  };
#pragma unroll
  for (int i = 0; i < kAhead; ++i) load(i, i);

  WaitForPrevious();
  const int num_rows = *t.rows.count;
  const int first_row = kRowsOfBlock * static_cast<int>(blockIdx.y);
  if (first_row >= num_rows) return;
  const int row = first_row + lane / 4;
  const BFloat16* x =
      row < num_rows ? As<BFloat16>(t.x) + static_cast<int64_t>(row) * m.hidden
                     : nullptr;
  float sum[4] = {};
  for (int base = 0; base < spans.steps(); base += kAhead) {
    uint4 right[kAhead][kStepSpans];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const int step = base + i;
      if (base > 0) load(step, i);
      LoadStep(x, spans, step, right[i]);
    }
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
#pragma unroll
      for (int s = 0; s < kStepSpans; ++s) {
        MultiplySpan(sum, lows[i][s], highs[i][s], right[i][s]);
      }
    }
  }
  parts[threadIdx.x] = make_float4(sum[0], sum[1], sum[2], sum[3]);
  __syncthreads();
  if (threadIdx.x >= 32) return;
  for (int w = 1; w < kProductWarps; ++w) {
    const float4 part = parts[32 * w + lane];
    sum[0] += part.x;
    sum[1] += part.y;
    sum[2] += part.z;
    sum[3] += part.w;
  }
#pragma unroll
  for (int n = 0; n < 4; ++n) {
    const int to = first_row + lane % 4 * 2 + n % 2;
    const int e = first_expert + n / 2 * 8;
    if (to >= num_rows || e > m.num_experts) continue;
    t.scratch.logits[static_cast<int64_t>(to) * (m.num_experts + 1) + e] =
        sum[n];
  }
}

}  // namespace
}  // namespace moe

absl::Status LaunchStreamedMoeLogits(const MoeTask& task, const Launch& on) {
  const dim3 grid(task.experts.num_experts / 16 + 1,
                  (task.rows.max + moe::kRowsOfBlock - 1) / moe::kRowsOfBlock);
  return LaunchDependent("Moe, logits", moe::StreamedLogitsKernel,
                         {.grid = grid, .block = moe::kProductThreads}, on,
                         task);
}

}  // namespace bole::cuda
