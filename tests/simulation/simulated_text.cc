#include "tests/simulation/simulated_text.h"

#include <algorithm>
#include <bit>

namespace bole::simulation {
namespace {

enum Purpose : uint64_t { kStop, kWord, kOther };

// -0 and 0 are one value.
uint64_t BitsOf(float value) { return std::bit_cast<uint32_t>(value + 0.0f); }

// Biases in any order are the same request.
uint64_t HashOfBiases(const SamplingParams& sampling) {
  uint64_t sum = 0;
  for (const auto& [token, bias] : sampling.logit_bias) {
    sum += Mix(static_cast<uint64_t>(token) + 1, BitsOf(bias));
  }
  return sum;
}

uint64_t HashOf(const SamplingParams& sampling, uint64_t model_seed) {
  uint64_t hash = Mix(model_seed, BitsOf(sampling.temperature));
  if (sampling.temperature != 0) {
    hash = Mix(hash, sampling.seed);
    hash = Mix(hash, static_cast<uint64_t>(sampling.top_k));
    hash = Mix(hash, BitsOf(sampling.top_p));
    hash = Mix(hash, BitsOf(sampling.min_p));
  }
  hash = Mix(hash, BitsOf(sampling.presence_penalty));
  hash = Mix(hash, BitsOf(sampling.frequency_penalty));
  hash = Mix(hash, BitsOf(sampling.repetition_penalty));
  return Mix(hash, HashOfBiases(sampling));
}

}  // namespace

// The finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
uint64_t Mix(uint64_t a, uint64_t b) {
  uint64_t z = a * 0xd1342543de82ef95 + b + kRowBase;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

double ToUniform(uint64_t bits) {
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

uint64_t RowOf(const History& history, int32_t token) {
  const uint64_t found = Mix(history.state, history.rows);
  return Mix(found, Mix(static_cast<uint64_t>(history.length),
                        static_cast<uint64_t>(token)));
}

History Append(const History& history, int32_t token, int32_t prompt_length) {
  const uint64_t row = RowOf(history, token);
  History next = history;
  next.state = Mix(history.state, row);
  next.rows += row * history.power;
  next.power *= kRowBase;
  next.length += 1;
  const uint64_t counted = Mix(static_cast<uint64_t>(token), 1);
  (history.length < prompt_length ? next.prompt : next.output) += counted;
  return next;
}

TextOptions LetterText() {
  TextOptions text;
  for (int32_t letter = 'a'; letter <= 'z'; ++letter) {
    text.alphabet.push_back(letter);
  }
  return text;
}

TokenRule::TokenRule(const TextOptions& text, int32_t prompt_length,
                     const SamplingParams& sampling)
    : text_(text),
      prompt_length_(prompt_length),
      parameters_(Mix(HashOf(sampling, text.seed),
                      static_cast<uint64_t>(prompt_length))),
      counts_output_(sampling.presence_penalty != 0 ||
                     sampling.frequency_penalty != 0 ||
                     sampling.repetition_penalty != 1),
      counts_prompt_(sampling.repetition_penalty != 1) {}

uint64_t TokenRule::Bits(const History& history, uint64_t purpose) const {
  uint64_t hash = Mix(parameters_, Mix(history.state, history.rows));
  hash = Mix(hash, static_cast<uint64_t>(history.length));
  if (counts_output_) hash = Mix(hash, history.output);
  if (counts_prompt_) hash = Mix(hash, history.prompt);
  return Mix(hash, kOther + purpose);
}

int32_t TokenRule::Next(const History& history) const {
  const uint64_t bits = Bits(history, 0);
  const bool stops = !text_.stop_tokens.empty() &&
                     ToUniform(Mix(bits, kStop)) < text_.stop_probability;
  const std::vector<int32_t>& choices =
      stops ? text_.stop_tokens : text_.alphabet;
  return choices[Mix(bits, kWord) % choices.size()];
}

std::vector<int32_t> ExpectedOutput(const TextOptions& text,
                                    std::span<const int32_t> prompt,
                                    const SamplingParams& sampling,
                                    int num_tokens,
                                    std::span<const int32_t> stops) {
  const auto prompt_length = static_cast<int32_t>(prompt.size());
  const TokenRule rule(text, prompt_length, sampling);
  History history;
  for (const int32_t token : prompt) {
    history = Append(history, token, prompt_length);
  }
  std::vector<int32_t> output;
  output.reserve(num_tokens);
  while (std::ssize(output) < num_tokens) {
    output.push_back(rule.Next(history));
    const int32_t token = output.back();
    if (std::find(stops.begin(), stops.end(), token) != stops.end()) break;
    history = Append(history, token, prompt_length);
  }
  return output;
}

}  // namespace bole::simulation
