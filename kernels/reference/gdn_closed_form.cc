#include "kernels/reference/gdn_closed_form.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/reference/solve_unit_lower.h"
#include "kernels/reference/vector_ops.h"

namespace bole::reference {
namespace {

constexpr size_t kPadding = 16;

void CopyScaled(const float* x, float scale, int n, float* out) {
  std::copy_n(x, n, out);
  Scale(scale, out, n);
}

}  // namespace

void ClosedForm::LoadKeyHead(const GdnCoreParams& params, RowRange range,
                             int key_head) {
  params_ = &params;
  range_ = range;
  const GdnShape& shape = params.shape;
  const GdnFactorRows factors(shape, params.factors, params.layer);
  const int dim = shape.key_dim;
  const size_t count = range.count;
  row_ = (2 * count + kPadding - 1) / kPadding * kPadding;

  x_.resize(2 * count * dim);
  for (int i = 0; i < range.count; ++i) {
    const int row = range.first + i;
    const size_t head_row =
        static_cast<size_t>(row) * shape.key_heads + key_head;
    CopyScaled(factors.k(row, key_head), factors.k_scale(row, key_head), dim,
               &x_[static_cast<size_t>(i) * dim]);
    CopyScaled(Floats(params.q) + head_row * dim, params.q_scale[head_row], dim,
               &x_[(count + i) * dim]);
  }
  transposed_x_.assign(dim * row_, 0.0f);
  for (size_t i = 0; i < 2 * count; ++i) {
    for (int c = 0; c < dim; ++c) transposed_x_[c * row_ + i] = x_[i * dim + c];
  }
  gram_.assign(2 * count * row_, 0.0f);
  const size_t columns = (count + kPadding - 1) / kPadding * kPadding;
  AddProduct({.rows = 2 * range.count,
              .columns = static_cast<int>(columns),
              .depth = dim,
              .a = x_.data(),
              .a_row = static_cast<size_t>(dim),
              .a_depth = 1,
              .b = transposed_x_.data(),
              .b_row = row_,
              .c = gram_.data(),
              .c_row = row_});
}

void ClosedForm::Solve(int head, const float* state, TreeSolver solver) {
  const GdnFactorRows factors(params_->shape, params_->factors, params_->layer);
  const int width = params_->shape.value_dim;
  const size_t count = range_.count;
  MultiplyState(state);
  SumLogDecays(factors, head);
  BuildFactors(factors, head);
  BuildRightSide(factors, head);

  const UnitLowerSystem system = {.num_rows = range_.count,
                                  .width = width,
                                  .minus_g = g_and_c_.data(),
                                  .g_row = count,
                                  .u = u_.data()};
  if (solver == TreeSolver::kNeumann) {
    SolveByNeumann(system, MaxDepth(), scratch_);
  } else {
    SolveByBlocks(system, scratch_);
  }

  // O = D_P Q S + C U.
  AddProduct({.rows = range_.count,
              .columns = width,
              .depth = range_.count,
              .a = g_and_c_.data() + count * count,
              .a_row = count,
              .a_depth = 1,
              .b = u_.data(),
              .b_row = static_cast<size_t>(width),
              .c = o_.data(),
              .c_row = static_cast<size_t>(width)});
  WriteOutput(head);
}

void ClosedForm::AdvanceChain(bool from_zero, float* state) {
  const GdnShape& shape = params_->shape;
  const size_t size = static_cast<size_t>(shape.value_dim) * shape.key_dim;
  const double end = log_decay_.back();
  if (from_zero) {
    std::fill_n(state, size, 0.0f);
  } else {
    Scale(std::exp(static_cast<float>(end)), state, static_cast<int>(size));
  }
  for (int i = 0; i < range_.count; ++i) {
    Scale(std::exp(static_cast<float>(end - log_decay_[i])),
          &u_[static_cast<size_t>(i) * shape.value_dim], shape.value_dim);
  }
  AddProduct({.rows = shape.value_dim,
              .columns = shape.key_dim,
              .depth = range_.count,
              .a = u_.data(),
              .a_row = 1,
              .a_depth = static_cast<size_t>(shape.value_dim),
              .b = x_.data(),
              .b_row = static_cast<size_t>(shape.key_dim),
              .c = state,
              .c_row = static_cast<size_t>(shape.key_dim)});
}

void ClosedForm::MultiplyState(const float* state) {
  const GdnShape& shape = params_->shape;
  state_x_.assign(shape.value_dim * row_, 0.0f);
  if (state == nullptr) return;
  AddProduct({.rows = shape.value_dim,
              .columns = static_cast<int>(row_),
              .depth = shape.key_dim,
              .a = state,
              .a_row = static_cast<size_t>(shape.key_dim),
              .a_depth = 1,
              .b = transposed_x_.data(),
              .b_row = row_,
              .c = state_x_.data(),
              .c_row = row_});
}

// In double: a strong decay near the root must not blur the differences
// between the sums below it.
void ClosedForm::SumLogDecays(const GdnFactorRows& factors, int head) {
  log_decay_.resize(range_.count);
  for (int i = 0; i < range_.count; ++i) {
    const int parent = Parent(i);
    log_decay_[i] = factors.log_decay(range_.first + i, head) +
                    (parent >= 0 ? log_decay_[parent] : 0);
  }
}

// -G_ij = -beta_i exp(Gamma_i - Gamma_j) k_i k_j for ancestors j of i, and C_ij
// = exp(Gamma_i - Gamma_j) q_i k_j for those and i itself. The exponential is
// taken for ancestors only, so its argument is never positive.
void ClosedForm::BuildFactors(const GdnFactorRows& factors, int head) {
  const size_t count = range_.count;
  g_and_c_.assign(2 * count * count, 0.0f);
  for (int i = 0; i < range_.count; ++i) {
    const float beta = factors.beta(range_.first + i, head);
    const float* kk = &gram_[i * row_];
    const float* qk = &gram_[(count + i) * row_];
    float* minus_g = &g_and_c_[i * count];
    float* c = &g_and_c_[(count + i) * count];
    c[i] = qk[i];
    for (int j = Parent(i); j >= 0; j = Parent(j)) {
      const float decay =
          std::exp(static_cast<float>(log_decay_[i] - log_decay_[j]));
      minus_g[j] = -beta * decay * kk[j];
      c[j] = decay * qk[j];
    }
  }
}

// R = D_beta (V - D_P K S), and the part of O that the state gives, D_P Q S.
void ClosedForm::BuildRightSide(const GdnFactorRows& factors, int head) {
  const size_t width = params_->shape.value_dim;
  u_.resize(range_.count * width);
  o_.resize(range_.count * width);
  for (int i = 0; i < range_.count; ++i) {
    const float beta = factors.beta(range_.first + i, head);
    const float decay = std::exp(static_cast<float>(log_decay_[i]));
    const float* v = factors.v(range_.first + i, head);
    const float* sk = &state_x_[i];
    const float* sq = sk + range_.count;
    for (size_t c = 0; c < width; ++c) {
      u_[i * width + c] = beta * (v[c] - decay * sk[c * row_]);
      o_[i * width + c] = decay * sq[c * row_];
    }
  }
}

void ClosedForm::WriteOutput(int head) {
  const GdnShape& shape = params_->shape;
  for (int i = 0; i < range_.count; ++i) {
    const size_t head_row =
        static_cast<size_t>(range_.first + i) * shape.value_heads + head;
    std::copy_n(&o_[static_cast<size_t>(i) * shape.value_dim], shape.value_dim,
                Floats(params_->out) + head_row * shape.value_dim);
  }
}

// The row of the range that row i continues, or -1.
int ClosedForm::Parent(int i) const {
  const RowBatch& batch = params_->batch;
  return batch.mask_words == 0 ? i - 1 : batch.parent[range_.first + i];
}

int ClosedForm::MaxDepth() const {
  const RowBatch& batch = params_->batch;
  if (batch.mask_words == 0) return range_.count - 1;
  const int32_t* depth = batch.depth + range_.first;
  return *std::max_element(depth, depth + range_.count);
}

}  // namespace bole::reference
