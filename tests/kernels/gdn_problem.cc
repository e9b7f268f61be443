#include "tests/kernels/gdn_problem.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "tests/testing/matrices.h"

namespace bole::testing {
namespace {

float RandomLogDecay(std::mt19937& rng, Decay decay) {
  if (decay == Decay::kMixed) return -Uniform(rng, 0, 8);
  const int kind = UniformInt(rng, 0, 5);
  if (decay == Decay::kExtreme && kind == 0) return -1e4f;
  if (decay == Decay::kExtreme && kind == 1) return -80;
  return -Uniform(rng, 0, 0.1f);
}

// A tenth of the gates is all but closed, a tenth all but open.
float RandomBeta(std::mt19937& rng) {
  const int kind = UniformInt(rng, 0, 9);
  if (kind == 0) return 1e-6f;
  if (kind == 1) return 1 - 1e-6f;
  return Uniform(rng, 0.01f, 0.99f);
}

float InverseNorm(std::span<const float> x) {
  const double sum = std::inner_product(x.begin(), x.end(), x.begin(), 0.0);
  return static_cast<float>(1 / std::sqrt(sum + 1e-6));
}

// Keys of any length with correlation rho after normalisation.
void FillKey(std::mt19937& rng, float correlation,
             std::span<const float> common, std::span<float> key) {
  FillNormal(rng, std::sqrt(1 - correlation), key);
  const float length = Uniform(rng, 0.5f, 2);
  for (size_t c = 0; c < key.size(); ++c) {
    key[c] = length * (key[c] + std::sqrt(correlation) * common[c]);
  }
}

void FillLayer(std::mt19937& rng, const GdnProblemOptions& options, int layer,
               GdnProblem& p) {
  const GdnShape& s = p.shape;
  const std::vector<float> common = NormalVector(rng, s.key_dim);
  for (int row = 0; row < p.batch.num_rows(); ++row) {
    FillNormal(
        rng, 1,
        p.raw.span(p.RawRow(layer, row) * s.conv_width(), s.conv_width()));
    for (int head = 0; head < s.key_heads; ++head) {
      const size_t i = p.KeyRow(layer, row, head);
      const std::span<float> key = p.k.span(i * s.key_dim, s.key_dim);
      FillKey(rng, options.key_correlation, common, key);
      p.k_scale[i] = InverseNorm(key);
    }
    for (int head = 0; head < s.value_heads; ++head) {
      const size_t i = p.ValueRow(layer, row, head);
      FillNormal(rng, 1, p.v.span(i * s.value_dim, s.value_dim));
      p.beta[i] = RandomBeta(rng);
      p.log_decay[i] = RandomLogDecay(rng, options.decay);
    }
  }
}

void FillQueries(std::mt19937& rng, GdnProblem& p) {
  const GdnShape& s = p.shape;
  const float factor = 1 / std::sqrt(static_cast<float>(s.key_dim));
  for (int i = 0; i < p.batch.num_rows() * s.key_heads; ++i) {
    const std::span<float> q =
        p.q.span(static_cast<size_t>(i) * s.key_dim, s.key_dim);
    FillNormal(rng, 1, q);
    p.q_scale[i] = InverseNorm(q) * factor;
  }
}

}  // namespace

GdnProblem::GdnProblem(std::mt19937& rng, const GdnProblemOptions& options,
                       HostBatch host_batch)
    : shape(options.shape),
      num_layers(options.num_layers),
      num_slots(host_batch.num_requests() + options.spare_slots),
      batch(std::move(host_batch)) {
  const size_t rows = batch.max_rows();
  const size_t layer_rows = rows * num_layers;
  const size_t slot_layers = static_cast<size_t>(num_slots) * num_layers;
  const size_t state_size =
      static_cast<size_t>(shape.value_heads) * shape.value_dim * shape.key_dim;
  state = GuardedBuffer<float>(slot_layers * state_size);
  window =
      GuardedBuffer<float>(slot_layers * shape.conv_taps * shape.conv_width());
  raw = GuardedBuffer<float>(layer_rows * shape.conv_width());
  k = GuardedBuffer<float>(layer_rows * shape.key_width());
  v = GuardedBuffer<float>(layer_rows * shape.value_width());
  k_scale = GuardedBuffer<float>(layer_rows * shape.key_heads);
  beta = GuardedBuffer<float>(layer_rows * shape.value_heads);
  log_decay = GuardedBuffer<float>(layer_rows * shape.value_heads);
  q = GuardedBuffer<float>(rows * shape.key_width());
  q_scale = GuardedBuffer<float>(rows * shape.key_heads);
  out = GuardedBuffer<float>(rows * shape.value_width());

  const float deviation = 1 / std::sqrt(static_cast<float>(shape.key_dim));
  for (int layer = 0; layer < num_layers; ++layer) {
    FillLayer(rng, options, layer, *this);
    for (int b = 0; b < batch.num_requests(); ++b) {
      if (batch.committed[b] == 0) continue;
      FillNormal(rng, 1, Window(b, layer));
      for (int head = 0; head < shape.value_heads; ++head) {
        FillNormal(rng, deviation, HeadState(b, layer, head));
      }
    }
  }
  FillQueries(rng, *this);
}

GdnStates GdnProblem::States() {
  return {.state = state.data(),
          .window = AsActivations(window.data()),
          .num_slots = num_slots,
          .num_layers = num_layers};
}

GdnFactors GdnProblem::Factors() {
  return {.raw = AsActivations(raw.data()),
          .k = AsActivations(k.data()),
          .v = AsActivations(v.data()),
          .k_scale = k_scale.data(),
          .beta = beta.data(),
          .log_decay = log_decay.data(),
          .layer_rows = batch.max_rows(),
          .node_states = node_states.size() > 0 ? node_states.data() : nullptr};
}

GdnCoreParams GdnProblem::Core(int layer, TreeSolver solver) {
  return {.batch = batch.View(),
          .shape = shape,
          .states = States(),
          .layer = layer,
          .q = AsActivations(q.data()),
          .q_scale = q_scale.data(),
          .factors = Factors(),
          .solver = solver,
          .out = AsActivations(out.data())};
}

GdnCoreParams GdnProblem::CoreOfRows(int layer, int first_row,
                                     const HostBatch& piece) {
  const size_t key_row = KeyRow(0, first_row, 0);
  const size_t value_row = ValueRow(0, first_row, 0);
  const size_t key = key_row * shape.key_dim;
  const size_t value = value_row * shape.value_dim;
  GdnCoreParams params = Core(layer);
  params.batch = piece.View();
  params.q = AsActivations(q.data() + key);
  params.q_scale += key_row;
  params.out = AsActivations(out.data() + value);
  params.factors.k = AsActivations(k.data() + key);
  params.factors.v = AsActivations(v.data() + value);
  params.factors.k_scale += key_row;
  params.factors.beta += value_row;
  params.factors.log_decay += value_row;
  if (params.factors.node_states != nullptr) {
    params.factors.node_states += value * shape.key_dim;
  }
  return params;
}

std::span<float> GdnProblem::HeadState(int request, int layer, int head) {
  const size_t size = static_cast<size_t>(shape.value_dim) * shape.key_dim;
  const size_t index =
      (static_cast<size_t>(batch.slot[request]) * num_layers + layer) *
          shape.value_heads +
      head;
  return state.span(index * size, size);
}

std::span<const float> GdnProblem::HeadState(int request, int layer,
                                             int head) const {
  return const_cast<GdnProblem*>(this)->HeadState(request, layer, head);
}

std::span<float> GdnProblem::Window(int request, int layer) {
  const size_t size = static_cast<size_t>(shape.conv_taps) * shape.conv_width();
  const size_t index =
      static_cast<size_t>(batch.slot[request]) * num_layers + layer;
  return window.span(index * size, size);
}

std::span<const float> GdnProblem::Out(int row, int head) const {
  return out.span(ValueRow(0, row, head) * shape.value_dim, shape.value_dim);
}

std::vector<float> GdnProblem::Outs(int first, int end, int head) const {
  std::vector<float> rows;
  for (int row = first; row < end; ++row) {
    const std::span<const float> out = Out(row, head);
    rows.insert(rows.end(), out.begin(), out.end());
  }
  return rows;
}

void GdnProblem::KeepNodeStates() {
  const size_t rows = static_cast<size_t>(batch.max_rows()) * num_layers;
  node_states =
      GuardedBuffer<float>(rows * shape.value_width() * shape.key_dim);
}

bool GdnProblem::GuardsIntact() const {
  const GuardedBuffer<float>* buffers[] = {
      &state, &window, &raw,       &k,       &v,   &k_scale,
      &beta,  &q,      &log_decay, &q_scale, &out, &node_states};
  return std::ranges::all_of(
      buffers, [](const auto* buffer) { return buffer->GuardsIntact(); });
}

void CommitSomething(std::mt19937& rng, int num_slots, HostBatch& batch) {
  std::vector<int> slots(num_slots);
  std::iota(slots.begin(), slots.end(), 0);
  std::ranges::shuffle(slots, rng);
  for (int b = 0; b < batch.num_requests(); ++b) {
    batch.slot[b] = slots[b];
    batch.committed[b] = UniformInt(rng, 1, 1000);
  }
}

}  // namespace bole::testing
