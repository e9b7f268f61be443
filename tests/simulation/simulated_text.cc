#include "tests/simulation/simulated_text.h"

#include <algorithm>
#include <bit>

namespace bole::simulation {
namespace {

enum Purpose : uint64_t { kStop, kWord, kOther, kDraft = 1 << 20 };

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
  if (sampling.min_tokens > 0) {
    hash = Mix(hash, static_cast<uint64_t>(sampling.min_tokens));
  }
  return Mix(hash, HashOfBiases(sampling));
}

bool Has(std::span<const int32_t> tokens, int32_t token) {
  return std::find(tokens.begin(), tokens.end(), token) != tokens.end();
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

uint64_t DraftOf(const History& history, int32_t next) {
  return Mix(history.state, Mix(static_cast<uint64_t>(next), kDraft));
}

History Append(const History& history, int32_t token, int32_t prompt_length) {
  const uint64_t row = RowOf(history, token);
  History next = history;
  if (history.length > 0) {
    next.drafts += DraftOf(history, token) * history.power;
  }
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
                     const SamplingParams& sampling,
                     std::span<const int32_t> stops)
    : text_(text),
      prompt_length_(prompt_length),
      min_tokens_(sampling.min_tokens),
      stops_(stops),
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
  const uint64_t word = Mix(bits, kWord);
  const int32_t token = choices[word % choices.size()];
  const int32_t num_output = std::max(history.length - prompt_length_, 0);
  if (num_output >= min_tokens_ || !Has(stops_, token)) return token;
  const std::vector<int32_t>& alphabet = text_.alphabet;
  const size_t first = word % alphabet.size();
  for (size_t i = 0; i < alphabet.size(); ++i) {
    const int32_t other = alphabet[(first + i) % alphabet.size()];
    if (!Has(stops_, other)) return other;
  }
  return token;
}

std::vector<int32_t> ExpectedOutput(const TextOptions& text,
                                    std::span<const int32_t> prompt,
                                    const SamplingParams& sampling,
                                    int num_tokens,
                                    std::span<const int32_t> stops) {
  const auto prompt_length = static_cast<int32_t>(prompt.size());
  const TokenRule rule(text, prompt_length, sampling, stops);
  History history;
  for (const int32_t token : prompt) {
    history = Append(history, token, prompt_length);
  }
  std::vector<int32_t> output;
  output.reserve(num_tokens);
  while (std::ssize(output) < num_tokens) {
    output.push_back(rule.Next(history));
    const int32_t token = output.back();
    if (Has(stops, token)) break;
    history = Append(history, token, prompt_length);
  }
  return output;
}

EmittedToken Report(int32_t token, uint64_t bits, int num_alternatives,
                    int vocabulary) {
  const auto logprob = static_cast<float>(-ToUniform(bits));
  EmittedToken report{.token = token, .logprob = logprob, .top = {}};
  const int count = std::min(num_alternatives, vocabulary);
  for (int i = 0; i < count; ++i) {
    report.top.push_back({.token = (token + i) % vocabulary,
                          .logprob = logprob - static_cast<float>(i)});
  }
  return report;
}

EmittedToken ReportOfPrompt(const TextOptions& text, const History& history,
                            int32_t token, int num_alternatives,
                            int vocabulary) {
  return Report(token, Mix(text.seed, RowOf(history, token)), num_alternatives,
                vocabulary);
}

std::vector<EmittedToken> ExpectedPromptLogprobs(
    const TextOptions& text, std::span<const int32_t> prompt,
    int num_alternatives, int vocabulary) {
  std::vector<EmittedToken> reports;
  History history;
  for (size_t i = 1; i < prompt.size(); ++i) {
    history =
        Append(history, prompt[i - 1], static_cast<int32_t>(prompt.size()));
    reports.push_back(
        ReportOfPrompt(text, history, prompt[i], num_alternatives, vocabulary));
  }
  return reports;
}

}  // namespace bole::simulation
