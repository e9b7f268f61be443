#include "clients/bench/synthetic.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/philox.h"

namespace bole::bench {
namespace {

// A length around `length`, by at most `spread` more or less, at least one.
int DrawLength(int length, double spread, std::mt19937_64& random) {
  std::uniform_real_distribution<double> factor(1 - spread, 1 + spread);
  return std::max(1, static_cast<int>(std::lround(length * factor(random))));
}

// `seed` with all of its bits in all of the result's (the finaliser of
// SplitMix64).
uint64_t Mix(uint64_t seed) {
  seed = (seed ^ (seed >> 30)) * 0xBF58476D1CE4E5B9;
  seed = (seed ^ (seed >> 27)) * 0x94D049BB133111EB;
  return seed ^ (seed >> 31);
}

}  // namespace

Workload MakeSynthetic(const SyntheticOptions& options) {
  std::mt19937_64 random(options.seed);
  Workload workload;
  workload.name =
      absl::StrCat(options.input_tokens, ":", options.output_tokens);
  workload.format = "synthetic";
  for (int i = 0; i < options.num_sessions; ++i) {
    const int input = DrawLength(options.input_tokens, options.spread, random);
    const int shared = std::min(options.shared_prefix, input - 1);
    Turn turn;
    std::vector<Segment> segments;
    if (shared > 0) segments.push_back({.seed = 0, .length = shared});
    segments.push_back({.seed = 1 + static_cast<uint64_t>(i),
                        .length = input - std::max(shared, 0)});
    turn.input = std::move(segments);
    turn.output_tokens =
        DrawLength(options.output_tokens, options.spread, random);
    workload.sessions.push_back(
        {.name = "", .start_seconds = std::nullopt, .turns = {turn}});
  }
  return workload;
}

void ScaleLengths(double factor, Workload& workload) {
  const auto scaled = [factor](int length) {
    return std::max(1, static_cast<int>(std::lround(length * factor)));
  };
  for (Session& session : workload.sessions) {
    for (Turn& turn : session.turns) {
      if (turn.output_tokens) turn.output_tokens = scaled(*turn.output_tokens);
      auto* segments = std::get_if<std::vector<Segment>>(&turn.input);
      if (segments == nullptr) continue;
      for (Segment& segment : *segments) {
        segment.length = scaled(segment.length);
      }
    }
  }
}

void Shuffle(uint64_t seed, Workload& workload) {
  std::mt19937_64 random(seed);
  std::shuffle(workload.sessions.begin(), workload.sessions.end(), random);
}

void AppendIds(const Segment& segment, uint64_t load_seed, uint32_t vocab_size,
               std::vector<uint32_t>& ids) {
  const uint64_t seed = Mix(Mix(load_seed) + segment.seed + 1);
  const PhiloxKey key{
      {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)}};
  ids.reserve(ids.size() + static_cast<size_t>(segment.length));
  for (int i = 0; i < segment.length; i += 4) {
    const PhiloxCounter bits =
        Philox({{static_cast<uint32_t>(i), 0, 0, 0}}, key);
    for (int j = 0; j < std::min(4, segment.length - i); ++j) {
      // The high half of the product is even enough for prompts.
      ids.push_back(
          static_cast<uint32_t>((uint64_t{bits.word[j]} * vocab_size) >> 32));
    }
  }
}

}  // namespace bole::bench
