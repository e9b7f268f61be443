// How the tokens of a request are drawn, and when it ends.
#ifndef BOLE_COMMON_SAMPLING_PARAMS_H_
#define BOLE_COMMON_SAMPLING_PARAMS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace bole {

inline constexpr float kMaxTemperature = 100.0f;
inline constexpr float kMaxRepetitionPenalty = 100.0f;
inline constexpr float kMaxLogitBias = 100.0f;
inline constexpr int kMaxRequestedLogprobs = 20;
inline constexpr size_t kMaxLogitBiases = 1024;
inline constexpr size_t kMaxStopTokens = 64;

// The defaults draw from the model's own distribution.
struct SamplingParams {
  float temperature = 1.0f;         // 0: greedy.
  int32_t top_k = 0;                // Only the k likeliest; 0: all.
  float top_p = 1.0f;               // Only the likeliest that make up p.
  float min_p = 0.0f;               // Only p of the likeliest and above.
  float presence_penalty = 0.0f;    // Subtracted for every token in the output.
  float frequency_penalty = 0.0f;   // Subtracted for each occurrence there.
  float repetition_penalty = 1.0f;  // Divides positive and multiplies negative
                                    // logits of tokens in prompt or output.

  // (token, bias): added to the token's logit, each token at most once.
  std::vector<std::pair<int32_t, float>> logit_bias;

  // One seed and one prompt give one text, in any batch. A caller who wants
  // texts to differ gives each its own.
  uint64_t seed = 0;

  std::optional<int32_t> max_tokens;  // Without: as many as the context holds.
  int32_t min_tokens = 0;             // Nothing stops the text before these.
  std::vector<int32_t> stop_token_ids;  // Besides the model's own.
  bool ignore_eos = false;              // The model's own do not stop it.

  bool logprobs = false;     // Report those of the tokens drawn,
  int32_t top_logprobs = 0;  // and of this many likeliest at each place.
  // Report those of the prompt's tokens except the first, and of this many
  // likeliest tokens at their places.
  std::optional<int32_t> prompt_logprobs;

  friend bool operator==(const SamplingParams&,
                         const SamplingParams&) = default;
};

// INVALID_ARGUMENT, with the field, its value and what is allowed, for a value
// out of range or not a number, a token that is not 0 .. vocabulary - 1, a
// token biased twice, min_tokens above max_tokens, or top_logprobs without
// logprobs. COST: O(n log n) for n biases.
absl::Status Validate(const SamplingParams& params, int vocabulary);

}  // namespace bole

#endif  // BOLE_COMMON_SAMPLING_PARAMS_H_
