#include "clients/bench/completion_body.h"

#include <cstdint>
#include <string>

#include "common/check.h"
#include "nlohmann/json.hpp"

namespace bole::bench {
namespace {

using Json = nlohmann::ordered_json;

void PutNumbers(const v1::SamplingParams& sampling, Json& body) {
  if (sampling.has_max_tokens()) body["max_tokens"] = sampling.max_tokens();
  if (sampling.has_min_tokens()) body["min_tokens"] = sampling.min_tokens();
  if (sampling.has_temperature()) body["temperature"] = sampling.temperature();
  if (sampling.has_top_p()) body["top_p"] = sampling.top_p();
  if (sampling.has_top_k()) body["top_k"] = sampling.top_k();
  if (sampling.has_min_p()) body["min_p"] = sampling.min_p();
  if (sampling.has_frequency_penalty()) {
    body["frequency_penalty"] = sampling.frequency_penalty();
  }
  if (sampling.has_presence_penalty()) {
    body["presence_penalty"] = sampling.presence_penalty();
  }
  if (sampling.has_repetition_penalty()) {
    body["repetition_penalty"] = sampling.repetition_penalty();
  }
  if (sampling.has_seed()) body["seed"] = sampling.seed();
}

void PutStops(const v1::SamplingParams& sampling, Json& body) {
  if (sampling.has_ignore_eos()) body["ignore_eos"] = sampling.ignore_eos();
  if (sampling.has_skip_special_tokens()) {
    body["skip_special_tokens"] = sampling.skip_special_tokens();
  }
  if (sampling.has_include_stop_str_in_output()) {
    body["include_stop_str_in_output"] = sampling.include_stop_str_in_output();
  }
  for (const std::string& text : sampling.stop()) body["stop"].push_back(text);
  for (const uint32_t id : sampling.stop_token_ids()) {
    body["stop_token_ids"].push_back(id);
  }
  for (const auto& [id, bias] : sampling.logit_bias()) {
    body["logit_bias"][std::to_string(id)] = bias;
  }
}

void PutTargets(const v1::LatencyTargets& targets, Json& body) {
  if (targets.has_time_to_first_token_ms()) {
    body["targets"]["ttft_ms"] = targets.time_to_first_token_ms();
  }
  if (targets.has_time_per_output_token_ms()) {
    body["targets"]["tpot_ms"] = targets.time_per_output_token_ms();
  }
}

// The two APIs have log probabilities in different forms.
void PutLogprobs(int logprobs, bool chat, Json& body) {
  if (chat) {
    body["logprobs"] = true;
    body["top_logprobs"] = logprobs;
  } else {
    body["logprobs"] = logprobs;
  }
}

void PutInput(const v1::GenerateRequest& request, Json& body) {
  if (request.has_chat()) {
    body["messages"] = Json::array();
    for (const v1::ChatMessage& message : request.chat().messages()) {
      body["messages"].push_back(
          {{"role", message.role()}, {"content", message.content()}});
    }
  } else if (request.has_token_ids()) {
    body["prompt"] = Json::array();
    for (const uint32_t id : request.token_ids().ids()) {
      body["prompt"].push_back(id);
    }
  } else {
    body["prompt"] = request.text();
  }
}

}  // namespace

CompletionBody MakeCompletionBody(const v1::GenerateRequest& request) {
  BOLE_CHECK(!request.has_n() && request.resume().empty() && !request.echo() &&
             request.constraint_case() ==
                 v1::GenerateRequest::CONSTRAINT_NOT_SET);
  Json body = Json::object();
  if (!request.model().empty()) body["model"] = request.model();
  PutInput(request, body);
  const v1::SamplingParams& sampling = request.sampling_params();
  PutNumbers(sampling, body);
  PutStops(sampling, body);
  PutTargets(request.targets(), body);
  if (sampling.has_logprobs()) {
    PutLogprobs(sampling.logprobs(), request.has_chat(), body);
  }
  body["stream"] = true;
  body["stream_options"] = {{"include_usage", true}};
  body["return_token_ids"] = true;
  // What is not UTF-8 in a file of texts is replaced.
  return {
      .path = request.has_chat() ? "/v1/chat/completions" : "/v1/completions",
      .json = body.dump(-1, ' ', /*ensure_ascii=*/false,
                        Json::error_handler_t::replace)};
}

}  // namespace bole::bench
