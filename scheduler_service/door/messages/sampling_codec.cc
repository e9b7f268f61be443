#include "scheduler_service/door/messages/sampling_codec.h"

#include <sys/random.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/field_error.h"
#include "common/status_macros.h"
#include "common/tokenizer/utf8.h"

namespace bole {
namespace {

constexpr char kField[] = "sampling_params";

uint64_t DrawSeed() {
  uint64_t seed;
  BOLE_CHECK(getentropy(&seed, sizeof(seed)) == 0);
  return seed;
}

absl::Status DecodeLogprobs(const v1::SamplingParams& message,
                            SamplingParams& params) {
  if (!message.has_logprobs()) return absl::OkStatus();
  if (message.logprobs() < 0 || message.logprobs() > kMaxRequestedLogprobs) {
    return BadField("sampling_params.logprobs", message.logprobs(),
                    absl::StrCat("[0, ", kMaxRequestedLogprobs, "]"));
  }
  params.logprobs = true;
  params.top_logprobs = message.logprobs();
  return absl::OkStatus();
}

// Checks that the id fits into int32_t; Validate() checks the vocabulary.
absl::Status CheckFits(const char* field, uint32_t token) {
  if (token <= std::numeric_limits<int32_t>::max()) return absl::OkStatus();
  return BadField(field, token, "a token");
}

// Bounds are checked before anything is copied.
absl::Status DecodeTokens(const v1::SamplingParams& message,
                          SamplingParams& params) {
  BOLE_RETURN_IF_ERROR(CheckAtMost(NumberOf("sampling_params.stop_token_ids"),
                                   message.stop_token_ids_size(),
                                   kMaxStopTokens));
  BOLE_RETURN_IF_ERROR(CheckAtMost(NumberOf("sampling_params.logit_bias"),
                                   message.logit_bias_size(), kMaxLogitBiases));
  params.stop_token_ids.reserve(message.stop_token_ids_size());
  for (const uint32_t token : message.stop_token_ids()) {
    BOLE_RETURN_IF_ERROR(CheckFits("sampling_params.stop_token_ids", token));
    params.stop_token_ids.push_back(static_cast<int32_t>(token));
  }
  params.logit_bias.reserve(message.logit_bias_size());
  for (const auto& [token, bias] : message.logit_bias()) {
    BOLE_RETURN_IF_ERROR(CheckFits("sampling_params.logit_bias", token));
    params.logit_bias.emplace_back(static_cast<int32_t>(token), bias);
  }
  // A map has no defined order, but equal requests are to become equal plans.
  std::sort(params.logit_bias.begin(), params.logit_bias.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SamplingParams> DecodeSampling(const v1::SamplingParams& message,
                                              const WorkerDescription& worker) {
  SamplingParams params = DefaultSampling(worker);
  if (message.has_temperature()) params.temperature = message.temperature();
  if (message.has_top_k()) params.top_k = message.top_k();
  if (message.has_top_p()) params.top_p = message.top_p();
  if (message.has_min_p()) params.min_p = message.min_p();
  if (message.has_frequency_penalty()) {
    params.frequency_penalty = message.frequency_penalty();
  }
  if (message.has_presence_penalty()) {
    params.presence_penalty = message.presence_penalty();
  }
  if (message.has_repetition_penalty()) {
    params.repetition_penalty = message.repetition_penalty();
  }
  if (message.has_max_tokens()) params.max_tokens = message.max_tokens();
  params.min_tokens = message.min_tokens();
  params.ignore_eos = message.ignore_eos();
  params.seed = message.has_seed() ? message.seed() : DrawSeed();
  BOLE_RETURN_IF_ERROR(DecodeLogprobs(message, params));
  BOLE_RETURN_IF_ERROR(DecodeTokens(message, params));
  absl::Status valid = Validate(params, worker.limits.vocabulary);
  if (!valid.ok()) return InField(kField, valid);
  return params;
}

absl::StatusOr<TextParams> DecodeTextParams(const v1::SamplingParams& message) {
  BOLE_RETURN_IF_ERROR(CheckAtMost(NumberOf("sampling_params.stop"),
                                   message.stop_size(), kMaxStopStrings));
  TextParams params{
      .stop = {},
      .include_stop_in_output = message.include_stop_str_in_output(),
      .skip_special_tokens =
          !message.has_skip_special_tokens() || message.skip_special_tokens()};
  params.stop.reserve(message.stop_size());
  for (int i = 0; i < message.stop_size(); ++i) {
    const std::string& stop = message.stop(i);
    const std::string field = absl::StrCat("sampling_params.stop[", i, "]");
    if (stop.empty() || stop.size() > kMaxStopBytes) {
      return BadField(SizeOf(field), stop.size(),
                      absl::StrCat("[1, ", kMaxStopBytes, "]"));
    }
    if (!IsValidUtf8(stop)) return BadField(field, Quoted(stop), "UTF-8");
    params.stop.push_back(stop);
  }
  return params;
}

v1::SamplingParams EncodeDefaults(const WorkerDescription& worker) {
  v1::SamplingParams message;
  message.set_temperature(worker.temperature);
  message.set_top_k(worker.top_k);
  message.set_top_p(worker.top_p);
  message.set_min_p(worker.min_p);
  message.set_repetition_penalty(worker.repetition_penalty);
  return message;
}

}  // namespace bole
