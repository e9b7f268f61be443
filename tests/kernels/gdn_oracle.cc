#include "tests/kernels/gdn_oracle.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace bole::testing {
namespace {

void AppendScaled(std::span<const float> x, double scale,
                  std::vector<double>& out) {
  for (const float value : x) out.push_back(scale * value);
}

double Norm(const double* x, int n) {
  double sum = 0;
  for (int c = 0; c < n; ++c) sum += x[c] * x[c];
  return std::sqrt(sum);
}

double DotOf(const double* x, const double* y, int n) {
  double sum = 0;
  for (int c = 0; c < n; ++c) sum += x[c] * y[c];
  return sum;
}

double DotOfMagnitudes(const double* x, const double* y, int n) {
  double sum = 0;
  for (int c = 0; c < n; ++c) sum += std::abs(x[c] * y[c]);
  return sum;
}

// exp(x) and what a rounded x <= 0 adds to its error.
double Inflated(double x) { return std::exp(x) * (1 - x); }

std::vector<double> Sum(std::vector<double> x, const std::vector<double>& y) {
  for (size_t i = 0; i < x.size(); ++i) x[i] += y[i];
  return x;
}

std::vector<double> Magnitudes(std::vector<double> x) {
  for (double& value : x) value = std::abs(value);
  return x;
}

}  // namespace

HeadProblem ExtractHead(const GdnProblem& p, int layer, int request, int head) {
  const GdnShape& s = p.shape;
  const int key_head = p.KeyHeadOf(head);
  HeadProblem h;
  h.parents = p.batch.trees[request];
  h.num_rows = static_cast<int>(h.parents.size());
  h.key_dim = s.key_dim;
  h.value_dim = s.value_dim;
  for (int i = 0; i < h.num_rows; ++i) {
    const int row = p.batch.first_row[request] + i;
    const size_t q_row = p.KeyRow(0, row, key_head);
    const size_t key_row = p.KeyRow(layer, row, key_head);
    const size_t value_row = p.ValueRow(layer, row, head);
    AppendScaled(p.q.span(q_row * s.key_dim, s.key_dim), p.q_scale[q_row], h.q);
    AppendScaled(p.k.span(key_row * s.key_dim, s.key_dim), p.k_scale[key_row],
                 h.k);
    AppendScaled(p.v.span(value_row * s.value_dim, s.value_dim), 1, h.v);
    h.beta.push_back(p.beta[value_row]);
    h.log_decay.push_back(p.log_decay[value_row]);
  }
  if (p.batch.committed[request] > 0) {
    AppendScaled(p.HeadState(request, layer, head), 1, h.state);
  } else {
    h.state.resize(static_cast<size_t>(s.value_dim) * s.key_dim);
  }
  return h;
}

HeadSolution RunRecurrence(const HeadProblem& h) {
  HeadSolution out;
  const size_t size = h.state.size();
  out.states.resize(h.num_rows * size);
  for (int i = 0; i < h.num_rows; ++i) {
    const double* before =
        h.parents[i] < 0 ? h.state.data() : &out.states[h.parents[i] * size];
    double* state = &out.states[i * size];
    const double* k = &h.k[i * h.key_dim];
    for (int c = 0; c < h.value_dim;
         ++c, before += h.key_dim, state += h.key_dim) {
      const double decay = std::exp(h.log_decay[i]);
      const double read = decay * DotOf(before, k, h.key_dim);
      const double u = h.beta[i] * (h.v[i * h.value_dim + c] - read);
      for (int d = 0; d < h.key_dim; ++d) {
        state[d] = decay * before[d] + u * k[d];
      }
      out.u.push_back(u);
      out.o.push_back(DotOf(state, &h.q[i * h.key_dim], h.key_dim));
    }
  }
  return out;
}

ErrorAnalysis::ErrorAnalysis(const HeadProblem& head)
    : h_(head), exact_(RunRecurrence(head)) {
  const size_t size = static_cast<size_t>(h_.num_rows) * h_.num_rows;
  for (auto* m : {&g_, &g_error_, &inverse_, &c_, &c_error_}) m->resize(size);
  for (int i = 0; i < h_.num_rows; ++i) BuildRow(i);
  inverse_magnitude_ = Magnitudes(inverse_);
}

// |dU| <= |X| (|dR| + |dG| |U| + the solver's own), X = (I + G)^-1. A diagonal
// block's inverse adds |X| |G| |X| (I + |G|) |U|.
std::vector<double> ErrorAnalysis::Blocks() const {
  const std::vector<double> g = Magnitudes(g_);
  const std::vector<double> u = Magnitudes(exact_.u);
  const std::vector<double> y = Sum(u, Times(g, u));
  const std::vector<double> own =
      Sum(y, Times(g, Times(inverse_magnitude_, y)));
  return Outputs(Times(inverse_magnitude_, Sum(RightSide(u), own)), u);
}

// A rounding of term m reaches U through the later terms, which sum to X: so
// the terms' own size, |G^m R|, is what costs.
std::vector<double> ErrorAnalysis::Neumann() const {
  const std::vector<double> u = Magnitudes(exact_.u);
  std::vector<double> term = ExactRightSide();
  std::vector<double> partial = term;
  std::vector<double> terms(u.size());
  std::vector<double> additions = Magnitudes(term);
  while (std::ranges::any_of(term, [](double x) { return x != 0; })) {
    terms = Sum(std::move(terms), Times(g_error_, Magnitudes(term)));
    term = Times(g_, term);
    for (double& x : term) x = -x;
    partial = Sum(std::move(partial), term);
    additions = Sum(std::move(additions), Magnitudes(partial));
  }
  const std::vector<double> du =
      Times(inverse_magnitude_, Sum(RightSide(u), terms));
  return Outputs(Sum(du, additions), u);
}

// A step never lengthens an error of a state's row, as 0 <= beta <= 1: the
// roundings of the path add up, each decayed.
std::vector<double> ErrorAnalysis::Serial() const {
  std::vector<double> state_error(exact_.u.size());  // Norms of rows.
  std::vector<double> scale(exact_.u.size());
  for (int i = 0; i < h_.num_rows; ++i) {
    const double q_norm = Norm(&h_.q[i * h_.key_dim], h_.key_dim);
    const int parent = h_.parents[i];
    for (int c = 0; c < h_.value_dim; ++c) {
      const double before = Norm(StateRow(parent, c), h_.key_dim);
      const double after = Norm(StateRow(i, c), h_.key_dim);
      const size_t at = Index(i, c);
      state_error[at] = Inflated(h_.log_decay[i]) * before +
                        h_.beta[i] * std::abs(h_.v[at]) + after;
      if (parent >= 0) {
        state_error[at] +=
            std::exp(h_.log_decay[i]) * state_error[Index(parent, c)];
      }
      scale[at] = q_norm * (state_error[at] + after);
    }
  }
  return scale;
}

const double* ErrorAnalysis::StateRow(int node, int c) const {
  return node < 0 ? &h_.state[c * h_.key_dim]
                  : &exact_.states[Index(node, c) * h_.key_dim];
}

void ErrorAnalysis::BuildRow(int i) {
  const double* k = &h_.k[i * h_.key_dim];
  const double* q = &h_.q[i * h_.key_dim];
  const size_t row = static_cast<size_t>(i) * h_.num_rows;
  double gamma = 0;  // Gamma_i - Gamma_j.
  for (int j = i; j >= 0; j = h_.parents[j]) {
    const double* kj = &h_.k[j * h_.key_dim];
    c_[row + j] = std::exp(gamma) * std::abs(DotOf(q, kj, h_.key_dim));
    c_error_[row + j] = Inflated(gamma) * DotOfMagnitudes(q, kj, h_.key_dim);
    if (j != i) {
      g_[row + j] = h_.beta[i] * std::exp(gamma) * DotOf(k, kj, h_.key_dim);
      g_error_[row + j] =
          h_.beta[i] * Inflated(gamma) * DotOfMagnitudes(k, kj, h_.key_dim);
    }
    gamma += h_.log_decay[j];
  }
  path_decay_.push_back(gamma);
  BuildInverseRow(i);
}

// X_i = e_i - sum_j G_ij X_j.
void ErrorAnalysis::BuildInverseRow(int i) {
  const size_t n = h_.num_rows;
  inverse_[i * n + i] = 1;
  for (int j = h_.parents[i]; j >= 0; j = h_.parents[j]) {
    for (int l = j; l >= 0; l = h_.parents[l]) {
      inverse_[i * n + l] -= g_[i * n + j] * inverse_[j * n + l];
    }
  }
}

// m x for m [T, T] and x [T, dv].
std::vector<double> ErrorAnalysis::Times(const std::vector<double>& m,
                                         const std::vector<double>& x) const {
  std::vector<double> out(x.size());
  for (int i = 0; i < h_.num_rows; ++i) {
    for (int j = i; j >= 0; j = h_.parents[j]) {
      const double factor = m[static_cast<size_t>(i) * h_.num_rows + j];
      for (int c = 0; c < h_.value_dim; ++c) {
        out[Index(i, c)] += factor * x[Index(j, c)];
      }
    }
  }
  return out;
}

std::vector<double> ErrorAnalysis::ExactRightSide() const {
  return Sum(exact_.u, Times(g_, exact_.u));
}

// |dR| + |dG| |U|.
std::vector<double> ErrorAnalysis::RightSide(
    const std::vector<double>& u) const {
  std::vector<double> r = Times(g_error_, u);
  for (int i = 0; i < h_.num_rows; ++i) {
    const double* k = &h_.k[i * h_.key_dim];
    for (int c = 0; c < h_.value_dim; ++c) {
      const double read = Inflated(path_decay_[i]) *
                          DotOfMagnitudes(StateRow(-1, c), k, h_.key_dim);
      r[Index(i, c)] += h_.beta[i] * (std::abs(h_.v[Index(i, c)]) + read);
    }
  }
  return r;
}

// |dO| from |dU|: D_P |Q| |S| + |dC| |U| + |C| |dU| + |O|.
std::vector<double> ErrorAnalysis::Outputs(const std::vector<double>& du,
                                           const std::vector<double>& u) const {
  std::vector<double> o =
      Sum(Sum(Times(c_, du), Times(c_error_, u)), Magnitudes(exact_.o));
  for (int i = 0; i < h_.num_rows; ++i) {
    const double* q = &h_.q[i * h_.key_dim];
    for (int c = 0; c < h_.value_dim; ++c) {
      o[Index(i, c)] += Inflated(path_decay_[i]) *
                        DotOfMagnitudes(StateRow(-1, c), q, h_.key_dim);
    }
  }
  return o;
}

}  // namespace bole::testing
