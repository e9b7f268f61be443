// A mixture of experts as launches on a stream: routing, products grouped by
// expert, and their sum.
#ifndef BOLE_KERNELS_CUDA_MOE_MOE_KERNELS_H_
#define BOLE_KERNELS_CUDA_MOE_MOE_KERNELS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/cuda/operators.h"
#include "kernels/tensor.h"

namespace bole::cuda {

// The weights of one layer, in elements. The shared expert is number E.
struct MoeExperts {
  int num_experts;              // E
  int hidden;                   // H
  int width;                    // m
  int shared_width;             // ms
  const void* router;           // [E, H]
  const void* shared_gate;      // [1, H]
  const void* const* gate_ups;  // [E + 1], device; each [2 m, H] or [2 ms, H]
  const void* const* downs;     // [E + 1], device; each [H, m] or [H, ms]

  __host__ __device__ int WidthOf(int expert) const {
    return expert == num_experts ? shared_width : width;
  }
  __host__ __device__ int max_width() const {
    return width > shared_width ? width : shared_width;
  }
};

// The rows that one expert works on.
struct MoeGroup {
  int32_t expert;
  int32_t first;  // Index into `entry`.
  int32_t count;
};

// What the launches pass to each other. A row has P = experts_per_token + 1
// places, for its experts in ascending order and then the shared one. The work
// of one expert for one row is entry number row * P + place.
struct MoeScratch {
  float* logits;        // [N, E + 1], the shared gate's last.
  int32_t* expert;      // [N, P]
  float* weight;        // [N, P]
  int32_t* num_groups;  // [1]
  MoeGroup* group;      // [MaxMoeGroups()], none empty, the shared one first.
  int32_t* entry;       // [N P], group by group.
  float* inner;         // [N P, max_width], or of bfloat16 (moe_products.h).
  float* y;             // [N P, H]
};

struct MoeTask {
  RowCount rows;
  int experts_per_token;
  const Activation* x;  // [N, H]
  Activation* out;      // [N, H]
  bool accumulate;      // Add to `out`, or write it without reading it.
  MoeExperts experts;
  MoeScratch scratch;

  __host__ __device__ int places() const { return experts_per_token + 1; }
};

// At most this many experts have rows.
inline int MaxMoeGroups(int max_rows, int experts_per_token, int num_experts) {
  const int64_t chosen = static_cast<int64_t>(max_rows) * experts_per_token;
  return chosen < num_experts ? static_cast<int>(chosen) + 1 : num_experts + 1;
}

// The most experts that routing has room for.
inline constexpr int kMaxMoeExperts = 4096;

// Sums are float32, each in an order that depends on its sizes alone. A row's
// experts are added in ascending order, the shared one last, and the result is
// rounded once: a row's bits do not depend on the rows beside it.
absl::Status LaunchMoe(const MoeTask& task, const Launch& on);

// The routing part of LaunchMoe(), from the logits to the groups.
absl::Status LaunchMoeRouting(const MoeTask& task, const Launch& on);

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_MOE_MOE_KERNELS_H_
