#include "kernels/reference/gdn_recurrence.h"

#include <cmath>
#include <vector>

#include "kernels/reference/vector_ops.h"

namespace bole::reference {
namespace {

void Scaled(const float* x, float scale, int n, std::vector<float>& out) {
  out.assign(x, x + n);
  Scale(scale, out.data(), n);
}

}  // namespace

void StepHead(const GdnFactorRows& factors, int row, int head,
              const Readout* readout, float* state) {
  thread_local std::vector<float> k;
  thread_local std::vector<float> q;
  const GdnShape& shape = factors.shape();
  const int key_head = KeyHead(shape, head);
  Scaled(factors.k(row, key_head), factors.k_scale(row, key_head),
         shape.key_dim, k);
  if (readout != nullptr) {
    Scaled(readout->q, readout->q_scale, shape.key_dim, q);
  }
  AdvanceState({.key_dim = shape.key_dim,
                .value_dim = shape.value_dim,
                .decay = std::exp(factors.log_decay(row, head)),
                .beta = factors.beta(row, head),
                .k = k.data(),
                .v = factors.v(row, head),
                .q = readout != nullptr ? q.data() : nullptr,
                .out = readout != nullptr ? readout->out : nullptr},
               state);
}

}  // namespace bole::reference
