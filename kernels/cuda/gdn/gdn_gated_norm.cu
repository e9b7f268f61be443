// The gated norm after the core of a linear layer, with half a warp for each
// row and value head.
#include <cstdint>

#include "kernels/cuda/bf16x8.cuh"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/gdn/gdn_conv.cuh"
#include "kernels/cuda/gdn/gdn_plain.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/operators.h"

namespace bole::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kHeadsPerBlock = kThreads / kHeadLanes;

__global__ void __launch_bounds__(kThreads)
    GatedNormKernel(const __grid_constant__ GdnGatedNormParams p) {
  const GdnShape& s = p.shape;
  const int lane = static_cast<int>(threadIdx.x) % kHeadLanes;
  const int64_t at = static_cast<int64_t>(blockIdx.x) * kHeadsPerBlock +
                     threadIdx.x / kHeadLanes;
  const int row = static_cast<int>(at / s.value_heads);
  const int head = static_cast<int>(at % s.value_heads);
  float weight[kVector];
#pragma unroll
  for (int c = 0; c < kVector; ++c) weight[c] = p.weight[lane * kVector + c];
  // The count was written before this forward pass, whose first kernel (Embed)
  // waited for all earlier ones.
  const bool is_used = row < __ldcg(p.rows.count);
  WaitForPrevious();
  uint4 vector = make_uint4(0, 0, 0, 0);
  uint4 gate = vector;
  if (is_used) {
    vector = LoadVector(As<BFloat16>(p.o) + at * kHeadDim + lane * kVector);
    gate = LoadVector(As<BFloat16>(p.projected) +
                      static_cast<int64_t>(row) * s.projected_width() +
                      s.z_column() + head * kHeadDim + lane * kVector);
  }
  float o[kVector];
  float z[kVector];
  Unpack(vector, o);
  Unpack(gate, z);
  const float scale = RmsScaleOfHead(o, p.epsilon);
  StartNext();
  if (!is_used) return;
  StoreVector(As<BFloat16>(p.out) + at * kHeadDim + lane * kVector,
              GateNormed(o, scale, weight, z));
}

}  // namespace

absl::Status GdnGatedNorm(const GdnGatedNormParams& params, const Launch& on) {
  if (on.type != ElementType::kBFloat16 || !HasVectorHeads(params.shape)) {
    return PlainGdnGatedNorm(params, on);
  }
  const int64_t heads =
      static_cast<int64_t>(params.rows.max) * params.shape.value_heads;
  const dim3 grid(
      static_cast<unsigned>((heads + kHeadsPerBlock - 1) / kHeadsPerBlock));
  return LaunchDependent("GdnGatedNorm", GatedNormKernel,
                         {.grid = grid, .block = kThreads}, on, params);
}

}  // namespace bole::cuda
