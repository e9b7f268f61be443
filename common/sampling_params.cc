#include "common/sampling_params.h"

#include <algorithm>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/field_error.h"
#include "common/status_macros.h"

namespace bole {
namespace {

// Written so that NaN is refused.
absl::Status CheckWithin(absl::string_view field, float value, float low,
                         float high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return BadField(std::string(field), value,
                  absl::StrCat("[", low, ", ", high, "]"));
}

absl::Status CheckAboveZero(absl::string_view field, float value, float high) {
  if (value > 0 && value <= high) return absl::OkStatus();
  return BadField(std::string(field), value, absl::StrCat("(0, ", high, "]"));
}

absl::Status CheckAtLeast(absl::string_view field, int32_t value, int32_t low) {
  if (value >= low) return absl::OkStatus();
  return BadField(std::string(field), value, absl::StrCat(low, " and more"));
}

absl::Status CheckToken(absl::string_view field, int32_t token,
                        int vocabulary) {
  if (token >= 0 && token < vocabulary) return absl::OkStatus();
  return BadField(std::string(field), token,
                  absl::StrCat("a token in [0, ", vocabulary, ")"));
}

absl::Status CheckCount(absl::string_view field, size_t count, size_t max) {
  if (count <= max) return absl::OkStatus();
  return BadField(NumberOf(std::string(field)), count,
                  absl::StrCat("[0, ", max, "]"));
}

absl::Status CheckLogitBias(const SamplingParams& params, int vocabulary) {
  const auto& bias = params.logit_bias;
  BOLE_RETURN_IF_ERROR(CheckCount("logit_bias", bias.size(), kMaxLogitBiases));
  std::vector<int32_t> tokens;
  tokens.reserve(bias.size());
  for (const auto& [token, value] : bias) {
    BOLE_RETURN_IF_ERROR(CheckToken("logit_bias", token, vocabulary));
    if (!(value >= -kMaxLogitBias && value <= kMaxLogitBias)) {
      return BadField(
          {"logit_bias", absl::StrCat("logit_bias of ", token)}, value,
          absl::StrCat("[", -kMaxLogitBias, ", ", kMaxLogitBias, "]"));
    }
    tokens.push_back(token);
  }
  std::sort(tokens.begin(), tokens.end());
  const auto twin = std::adjacent_find(tokens.begin(), tokens.end());
  if (twin == tokens.end()) return absl::OkStatus();
  return AboutField("logit_bias",
                    absl::InvalidArgumentError(absl::StrCat(
                        "logit_bias has token ", *twin, " twice")));
}

absl::Status CheckLengths(const SamplingParams& params) {
  BOLE_RETURN_IF_ERROR(CheckAtLeast("min_tokens", params.min_tokens, 0));
  if (!params.max_tokens) return absl::OkStatus();
  BOLE_RETURN_IF_ERROR(CheckAtLeast("max_tokens", *params.max_tokens, 1));
  if (params.min_tokens <= *params.max_tokens) return absl::OkStatus();
  return BadField("min_tokens", params.min_tokens,
                  absl::StrCat("[0, max_tokens = ", *params.max_tokens, "]"));
}

absl::Status CheckNumLogprobs(absl::string_view field, int32_t value) {
  if (value >= 0 && value <= kMaxRequestedLogprobs) return absl::OkStatus();
  return BadField(std::string(field), value,
                  absl::StrCat("[0, ", kMaxRequestedLogprobs, "]"));
}

absl::Status CheckFilters(const SamplingParams& params) {
  BOLE_RETURN_IF_ERROR(
      CheckWithin("presence_penalty", params.presence_penalty, -2, 2));
  BOLE_RETURN_IF_ERROR(
      CheckWithin("frequency_penalty", params.frequency_penalty, -2, 2));
  BOLE_RETURN_IF_ERROR(CheckAboveZero(
      "repetition_penalty", params.repetition_penalty, kMaxRepetitionPenalty));
  BOLE_RETURN_IF_ERROR(
      CheckWithin("temperature", params.temperature, 0, kMaxTemperature));
  BOLE_RETURN_IF_ERROR(CheckAtLeast("top_k", params.top_k, 0));
  BOLE_RETURN_IF_ERROR(CheckAboveZero("top_p", params.top_p, 1));
  return CheckWithin("min_p", params.min_p, 0, 1);
}

}  // namespace

absl::Status Validate(const SamplingParams& params, int vocabulary) {
  BOLE_RETURN_IF_ERROR(CheckLogitBias(params, vocabulary));
  BOLE_RETURN_IF_ERROR(CheckFilters(params));
  BOLE_RETURN_IF_ERROR(CheckLengths(params));
  BOLE_RETURN_IF_ERROR(CheckCount(
      "stop_token_ids", params.stop_token_ids.size(), kMaxStopTokens));
  for (const int32_t token : params.stop_token_ids) {
    BOLE_RETURN_IF_ERROR(CheckToken("stop_token_ids", token, vocabulary));
  }
  BOLE_RETURN_IF_ERROR(CheckNumLogprobs("top_logprobs", params.top_logprobs));
  if (params.prompt_logprobs) {
    BOLE_RETURN_IF_ERROR(
        CheckNumLogprobs("prompt_logprobs", *params.prompt_logprobs));
  }
  if (params.top_logprobs > 0 && !params.logprobs) {
    return BadField("top_logprobs", params.top_logprobs, "0 without logprobs");
  }
  return absl::OkStatus();
}

}  // namespace bole
