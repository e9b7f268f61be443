// The buffers of a linear-attention problem on the GPU.
#ifndef BOLE_TESTS_KERNELS_CUDA_DEVICE_GDN_H_
#define BOLE_TESTS_KERNELS_CUDA_DEVICE_GDN_H_

#include "kernels/gdn.h"
#include "tests/kernels/cuda/device_copies.h"
#include "tests/kernels/gdn_problem.h"

namespace bole::testing {

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
                 .layer_rows = p.batch.max_rows()}),
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

}  // namespace bole::testing

#endif  // BOLE_TESTS_KERNELS_CUDA_DEVICE_GDN_H_
