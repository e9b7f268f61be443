// The front of a linear layer on the GPU: a problem with what the projection
// has given.
#ifndef BOLE_TESTS_KERNELS_CUDA_GDN_DEVICE_FRONT_H_
#define BOLE_TESTS_KERNELS_CUDA_GDN_DEVICE_FRONT_H_

#include <cmath>
#include <cstddef>
#include <random>
#include <utility>
#include <vector>

#include "kernels/gdn.h"
#include "kernels/tensor.h"
#include "tests/kernels/cuda/device_copies.h"
#include "tests/kernels/cuda/gdn/device_gdn.h"
#include "tests/kernels/gdn_problem.h"
#include "tests/testing/guarded_buffer.h"
#include "tests/testing/matrices.h"
#include "tests/testing/random_forest.h"

namespace bole::testing {

struct FrontProblem {
  FrontProblem(std::mt19937& rng, HostBatch batch, const GdnShape& shape)
      : gdn(rng, {.shape = shape, .num_layers = 2}, std::move(batch)),
        projected(static_cast<size_t>(gdn.batch.max_rows()) *
                  shape.projected_width()),
        weight(NormalVector(
            rng, static_cast<size_t>(shape.conv_width()) * shape.conv_taps,
            0.5f)),
        negative_exp_a(shape.value_heads),
        dt_bias(NormalVector(rng, shape.value_heads)) {
    for (float& a : negative_exp_a) a = -std::exp(Uniform(rng, -2, 2));
    FillNormal(rng, 1,
               projected.span(0, static_cast<size_t>(gdn.batch.num_rows()) *
                                     shape.projected_width()));
  }

  GdnProblem gdn;
  GuardedBuffer<float> projected;
  std::vector<float> weight, negative_exp_a, dt_bias;
};

// What a whole layer leaves of a problem, and its outputs.
struct LayerResult {
  explicit LayerResult(const FrontProblem& given)
      : problem(given), out(given.gdn.out.size()) {}

  FrontProblem problem;
  GuardedBuffer<float> out;
};

// Its buffers on the GPU.
struct DeviceFront {
  DeviceFront(FrontProblem& p, DeviceCopies& copies)
      : gdn(p.gdn, copies),
        projected(copies.Activations(p.projected)),
        weight(copies.Of(p.weight)),
        negative_exp_a(copies.Of(p.negative_exp_a)),
        dt_bias(copies.Of(p.dt_bias)) {}

  GdnConvParams Conv(int layer) const {
    return {.batch = gdn.batch,
            .shape = gdn.shape,
            .states = gdn.states,
            .layer = layer,
            .projected = projected,
            .conv_weight = weight,
            .negative_exp_a = negative_exp_a,
            .dt_bias = dt_bias,
            .q = gdn.q,
            .q_scale = gdn.q_scale,
            .factors = gdn.factors};
  }

  GdnGatedNormParams Norm(const float* norm_weight, Activation* to) const {
    return {.rows = gdn.batch.rows,
            .shape = gdn.shape,
            .epsilon = 1e-6f,
            .o = gdn.out,
            .projected = projected,
            .weight = norm_weight,
            .out = to};
  }

  DeviceGdn gdn;
  Activation* projected;
  const float* weight;
  const float* negative_exp_a;
  const float* dt_bias;
};

}  // namespace bole::testing

#endif  // BOLE_TESTS_KERNELS_CUDA_GDN_DEVICE_FRONT_H_
