// The operands of the linear layers on the GPU.
#ifndef BOLE_TESTS_KERNELS_CUDA_GDN_DEVICE_GDN_H_
#define BOLE_TESTS_KERNELS_CUDA_GDN_DEVICE_GDN_H_

#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <type_traits>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/gdn.h"
#include "kernels/row_batch.h"
#include "kernels/tensor.h"
#include "tests/kernels/cuda/device_copies.h"
#include "tests/kernels/gdn_problem.h"
#include "tests/testing/matrices.h"

namespace bole::testing {

// Nodes of trees at the edges of what kernels cut them into.
inline constexpr int kEdgeSizes[] = {1,  2,  7,  8,  15, 16, 17,  31,  32, 33,
                                     47, 48, 49, 63, 64, 65, 100, 113, 128};

// A problem's buffers on the GPU. Host values are rounded to what it holds.
struct DeviceGdn {
  DeviceGdn(GdnProblem& p, DeviceCopies& copies)
      : batch(copies.Of(p.batch)),
        states({.state = copies.Of(p.state),
                .window = copies.Activations(p.window),
                .num_slots = p.num_slots,
                .num_layers = p.num_layers}),
        factors({.raw = copies.Activations(p.raw),
                 .k = copies.Activations(p.k),
                 .v = copies.Activations(p.v),
                 .k_scale = copies.Of(p.k_scale),
                 .beta = copies.Of(p.beta),
                 .log_decay = copies.Of(p.log_decay),
                 .layer_rows = p.batch.max_rows(),
                 .node_states = p.node_states.size() > 0
                                    ? copies.Of(p.node_states)
                                    : nullptr}),
        q(copies.Activations(p.q)),
        q_scale(copies.Of(p.q_scale)),
        out(copies.Activations(p.out)),
        shape(p.shape) {}

  GdnCoreParams Core(int layer, TreeSolver solver) const {
    return {.batch = batch,
            .shape = shape,
            .states = states,
            .layer = layer,
            .q = q,
            .q_scale = q_scale,
            .factors = factors,
            .solver = solver,
            .out = out};
  }

  RowBatch batch;
  GdnStates states;
  GdnFactors factors;
  Activation* q;
  float* q_scale;
  Activation* out;
  GdnShape shape;
};

// The relative error, which must be within `tolerance`; what is nothing must
// stay so.
inline double ExpectSmallError(std::span<const float> got,
                               std::span<const float> want, double tolerance,
                               const std::string& what) {
  double norm = 0;
  for (const float x : want) norm += static_cast<double>(x) * x;
  if (norm < 1e-60) {
    EXPECT_LE(MaxError(got, want), 1e-30) << what;
    return 0;
  }
  const double error = RelativeRmsError(got, want);
  EXPECT_TRUE(error <= tolerance) << what << ": relative error " << error;
  return error;
}

// Verifies on the GPU; the outputs come back into `p`. The states must not
// change, nor the rows of no request be written.
inline void VerifyOnDevice(cuda::CudaBackend& backend, GdnProblem& p, int layer,
                           TreeSolver solver) {
  const GdnProblem before = p;
  DeviceCopies copies(backend);
  const DeviceGdn device(p, copies);
  const absl::Status status = backend.GdnVerify(device.Core(layer, solver));
  copies.Fetch();
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_TRUE(SameBits(before.state.all(), p.state.all()))
      << "the state is only read";
  for (int row = p.batch.num_rows(); row < p.batch.max_rows(); ++row) {
    for (int head = 0; head < p.shape.value_heads; ++head) {
      for (const float x : p.Out(row, head)) {
        ASSERT_TRUE(std::isnan(x)) << "row " << row << " is no one's";
      }
    }
  }
}

// The core whose row 0 is row `row` of the problem: its operands as those of a
// batch of its own, which the caller puts in.
inline GdnCoreParams CoreFromRow(const DeviceGdn& device, size_t max_rows,
                                 int layer, int row, size_t element_bytes) {
  GdnCoreParams step = device.Core(layer, TreeSolver::kBlocks);
  const GdnShape& s = step.shape;
  size_t at = static_cast<size_t>(layer) * max_rows + row;
  const auto shift = [&](auto*& base, int width, size_t bytes) {
    using Element =
        std::remove_pointer_t<std::remove_reference_t<decltype(base)>>;
    char* shifted = const_cast<char*>(reinterpret_cast<const char*>(base)) +
                    at * width * bytes;
    base = reinterpret_cast<Element*>(shifted);
  };
  GdnFactors& f = step.factors;
  f.layer_rows = 0;
  shift(f.raw, s.conv_width(), element_bytes);
  shift(f.k, s.key_width(), element_bytes);
  shift(f.v, s.value_width(), element_bytes);
  shift(f.k_scale, s.key_heads, sizeof(float));
  shift(f.beta, s.value_heads, sizeof(float));
  shift(f.log_decay, s.value_heads, sizeof(float));
  at = row;
  shift(step.q, s.key_width(), element_bytes);
  shift(step.q_scale, s.key_heads, sizeof(float));
  shift(step.out, s.value_width(), element_bytes);
  return step;
}

}  // namespace bole::testing

#endif  // BOLE_TESTS_KERNELS_CUDA_GDN_DEVICE_GDN_H_
