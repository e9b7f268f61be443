#include "tests/kernels/cuda/sampling/sample_cases.h"

#include <cfloat>
#include <cmath>
#include <limits>
#include <utility>

namespace bole::testing {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

SamplingControl RandomControl(std::mt19937& rng) {
  SamplingControl control = PlainControl(rng() * uint64_t{0x100000001});
  control.temperature = OneOf<float>(rng, {0.3f, 1, 1, 2.5f});
  control.top_k = OneOf<int>(rng, {0, 0, 1, 2, 4, 10, 100});
  control.top_p = OneOf<float>(rng, {1, 1, 0.9f, 0.6f, 0.1f});
  control.min_p = OneOf<float>(rng, {0, 0, 0.05f, 0.4f});
  control.presence_penalty = OneOf<float>(rng, {0, 0, 0.5f, -1.5f});
  control.frequency_penalty = OneOf<float>(rng, {0, 0, 0.3f, -0.7f});
  control.repetition_penalty = OneOf<float>(rng, {1, 1, 1.3f, 0.5f});
  control.prompt_length = UniformInt(rng, 0, 25);
  control.top_logprobs = OneOf<int>(rng, {0, 0, 3, 20});
  return control;
}

// Half of the rows have logits in steps of a quarter, so that ties are common;
// few have NaN, which ends a walk.
std::vector<float> RandomLogits(std::mt19937& rng, int vocabulary) {
  std::normal_distribution<float> normal(0, 2);
  const bool coarse = UniformInt(rng, 0, 1) == 0;
  std::vector<float> logits(vocabulary);
  for (float& z : logits) {
    z = normal(rng);
    if (coarse) z = std::round(4 * z) / 4;
    if (UniformInt(rng, 0, 24) > 0) continue;
    z = OneOf<float>(rng, {-kInfinity, -kInfinity, 0.0f, -0.0f});
  }
  if (UniformInt(rng, 0, 31) == 0) {
    logits[UniformInt(rng, 0, vocabulary - 1)] = kNan;
  }
  return logits;
}

int32_t Likeliest(const std::vector<float>& logits, int num_valid) {
  int32_t best = 0;
  for (int v = 0; v < num_valid; ++v) {
    if (logits[v] > logits[best] || std::isnan(logits[best])) best = v;
  }
  return best;
}

// Up to 25 nodes, now and then none, or with several parentless ones. Half of
// the nodes carry the likeliest token of their parent, so that walks go deep.
SampledRequest RandomRequest(std::mt19937& rng, int vocabulary, int num_valid) {
  SampledRequest request{.nodes = {},
                         .logits = {},
                         .control = RandomControl(rng),
                         .bias = {},
                         .stop = {},
                         .slot = UniformInt(rng, 0, kSampleSlots - 1),
                         .committed = UniformInt(rng, 0, 20)};
  const int num_nodes = UniformInt(rng, 0, 25);
  for (int i = 0; i < num_nodes; ++i) {
    const bool is_root = i == 0 || UniformInt(rng, 0, 15) == 0;
    const int parent = is_root ? -1 : UniformInt(rng, 0, i - 1);
    const bool is_likely = !is_root && UniformInt(rng, 0, 1) == 0;
    request.nodes.parent.push_back(parent);
    request.nodes.token.push_back(
        is_likely ? Likeliest(request.logits[parent], num_valid)
                  : UniformInt(rng, 0, vocabulary - 1));
    request.logits.push_back(RandomLogits(rng, vocabulary));
  }
  for (int i = OneOf<int>(rng, {0, 0, 1, 5}); i > 0; --i) {
    request.bias.emplace_back(UniformInt(rng, 0, vocabulary - 1),
                              OneOf<float>(rng, {1.3f, -0.7f, -100}));
  }
  for (int i = OneOf<int>(rng, {0, 0, 1, 40}); i > 0; --i) {
    request.stop.push_back(UniformInt(rng, 0, vocabulary - 1));
  }
  if (UniformInt(rng, 0, 3) == 0) {
    request.control.max_tokens = UniformInt(rng, 1, 3);
  }
  if (UniformInt(rng, 0, 3) == 0) {
    request.control.min_tokens = UniformInt(rng, 1, 25);
  }
  return request;
}

}  // namespace

std::vector<int32_t> RandomCounts(std::mt19937& rng, int vocabulary) {
  std::vector<int32_t> counts(static_cast<size_t>(kSampleSlots) * vocabulary);
  for (int32_t& count : counts) {
    count = OneOf<int>(rng, {0, 0, 0, 1, 2, 7, kPromptToken, kPromptToken + 1});
  }
  return counts;
}

SampleCase RandomSampleCase(std::mt19937& rng, int max_vocabulary) {
  const int vocabulary = UniformInt(rng, 4, max_vocabulary);
  SampleCase c = {.requests = {},
                  .vocabulary = vocabulary,
                  .num_valid_tokens = vocabulary - UniformInt(rng, 0, 2),
                  .counts = RandomCounts(rng, vocabulary)};
  const int num_requests = UniformInt(rng, 1, 6);
  for (int b = 0; b < num_requests; ++b) {
    c.requests.push_back(RandomRequest(rng, vocabulary, c.num_valid_tokens));
  }
  return c;
}

SampledRequest OneRow(std::vector<float> logits,
                      const SamplingControl& control) {
  return {.nodes = {{1}, {-1}},
          .logits = {std::move(logits)},
          .control = control,
          .bias = {},
          .stop = {}};
}

std::vector<std::vector<float>> HostileRows(std::mt19937& rng, int vocabulary) {
  std::vector<std::vector<float>> rows;
  for (const float z : {kNan, -kInfinity, kInfinity, 0.0f, -0.0f, FLT_MAX,
                        -FLT_MAX, FLT_MIN, 3.25f}) {
    rows.emplace_back(vocabulary, z);
    rows.push_back(rows.back());
    rows.back()[vocabulary - 3] = 1;
    rows.back()[vocabulary / 2] = -0.5f;
  }
  // NaN in the last token that is valid, and behind it.
  for (const int from_end : {2, 1}) {
    rows.emplace_back(vocabulary, 0.5f);
    rows.back()[vocabulary - from_end] = kNan;
  }
  rows.push_back(RandomLogits(rng, vocabulary));
  for (float& z : rows.back()) z *= 1e36f;
  rows.emplace_back(vocabulary);
  for (int v = 0; v < vocabulary; v += 2) rows.back()[v] = -0.0f;
  return rows;
}

std::vector<SamplingControl> ExtremeControls() {
  const auto with = [](auto change) {
    SamplingControl control = PlainControl(7);
    control.top_logprobs = 2;
    change(control);
    return control;
  };
  return {with([](SamplingControl&) {}),
          with([](SamplingControl& c) { c.temperature = 0; }),
          with([](SamplingControl& c) { c.temperature = 1e-6f; }),
          with([](SamplingControl& c) { c.temperature = 100; }),
          with([](SamplingControl& c) { c.top_k = 1; }),
          with([](SamplingControl& c) { c.top_k = 4; }),
          with([](SamplingControl& c) { c.top_k = 1 << 30; }),
          with([](SamplingControl& c) { c.top_p = 1e-9f; }),
          with([](SamplingControl& c) { c.top_p = 0.5f; }),
          with([](SamplingControl& c) { c.top_p = 1 - 0x1p-24f; }),
          with([](SamplingControl& c) { c.min_p = 1; }),
          with([](SamplingControl& c) { c.min_p = 0.5f; }),
          with([](SamplingControl& c) { c.min_p = 1e-9f; }),
          with([](SamplingControl& c) {
            c.top_k = 3;
            c.top_p = 0.5f;
            c.min_p = 0.1f;
            c.repetition_penalty = 2;
            c.presence_penalty = -1;
          })};
}

std::vector<SamplingControl> ExtremeAndUsualControls() {
  std::vector<SamplingControl> controls = ExtremeControls();
  SamplingControl usual = PlainControl(11);
  usual.temperature = 0.6f;
  usual.top_k = 20;
  usual.top_p = 0.95f;
  usual.top_logprobs = kMaxTopLogprobs;
  controls.push_back(usual);
  usual.presence_penalty = 1.5f;
  controls.push_back(usual);
  usual.top_k = 5000;
  controls.push_back(usual);
  usual.temperature = 1;
  usual.top_k = 0;
  controls.push_back(usual);
  return controls;
}

}  // namespace bole::testing
