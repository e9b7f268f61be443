#include "scheduler_service/door/openai/sampling_fields.h"

#include <charconv>
#include <cmath>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/field_error.h"

namespace bole {
namespace {

constexpr float kMaxBias = 100;

void ReadStop(JsonFields& fields, v1::SamplingParams& params) {
  const OrderedJson* stop = fields.Take("stop");
  if (stop == nullptr) return;
  const std::string path = fields.PathOf("stop");
  if (stop->is_string()) return params.add_stop(stop->get<std::string>());
  if (!stop->is_array()) {
    return fields.Fail(WrongValue(path, *stop, "a string or an array of them"));
  }
  for (size_t i = 0; i < stop->size(); ++i) {
    const OrderedJson& text = (*stop)[i];
    if (!text.is_string()) {
      return fields.Fail(
          WrongValue(absl::StrCat(path, "[", i, "]"), text, "a string"));
    }
    params.add_stop(text.get<std::string>());
  }
}

void ReadStopTokens(JsonFields& fields, v1::SamplingParams& params) {
  const OrderedJson* ids = fields.TakeArray("stop_token_ids");
  for (size_t i = 0; ids != nullptr && i < ids->size(); ++i) {
    const OrderedJson& id = (*ids)[i];
    if (!id.is_number_unsigned() || id.get<uint64_t>() > INT32_MAX) {
      return fields.Fail(
          WrongValue(absl::StrCat(fields.PathOf("stop_token_ids"), "[", i, "]"),
                     id, "a token id"));
    }
    params.add_stop_token_ids(id.get<uint32_t>());
  }
}

void ReadLogitBias(JsonFields& fields, v1::SamplingParams& params) {
  const OrderedJson* biases = fields.Take("logit_bias");
  if (biases == nullptr) return;
  const std::string path = fields.PathOf("logit_bias");
  if (!biases->is_object()) {
    return fields.Fail(WrongValue(path, *biases, "an object"));
  }
  for (const auto& [key, value] : biases->items()) {
    uint32_t token = 0;
    const char* const end = key.data() + key.size();
    const auto parsed = std::from_chars(key.data(), end, token);
    if (parsed.ec != std::errc() || parsed.ptr != end || token > INT32_MAX) {
      return fields.Fail(BadField({path, absl::StrCat("a key of ", path)},
                                  Quoted(key), "a token id"));
    }
    const std::string member = absl::StrCat(path, ".", token);
    if (!value.is_number() || std::abs(value.get<double>()) > kMaxBias) {
      return fields.Fail(WrongValue(member, value, "a number in [-100, 100]"));
    }
    // "7" and "07" are the same token, and neither may override the other.
    if (!params.mutable_logit_bias()
             ->insert({token, value.get<float>()})
             .second) {
      return fields.Fail(BadField({member, absl::StrCat("the token of ", path)},
                                  token, "each token once"));
    }
  }
}

void ReadSpeculation(JsonFields& fields, v1::GenerateRequest& message) {
  const OrderedJson* json = fields.Take("speculation");
  if (json == nullptr) return;
  v1::SpeculationOverride& bounds = *message.mutable_speculation();
  JsonFields inner(*json, fields.PathOf("speculation"));
  if (const auto mode = inner.TakeString("mode")) {
    if (*mode == "off") {
      bounds.set_mode(v1::SPECULATION_MODE_OFF);
    } else if (*mode == "chain") {
      bounds.set_mode(v1::SPECULATION_MODE_CHAIN);
    } else if (*mode == "tree") {
      bounds.set_mode(v1::SPECULATION_MODE_TREE);
    } else {
      inner.Fail(
          BadField(inner.PathOf("mode"), Quoted(*mode), "off, chain or tree"));
    }
  }
  if (const auto nodes = inner.TakeUint32("nodes")) bounds.set_nodes(*nodes);
  if (const auto depth = inner.TakeUint32("depth")) bounds.set_depth(*depth);
  fields.Fail(inner.Finish());
}

void ReadTargets(JsonFields& fields, v1::GenerateRequest& message) {
  const OrderedJson* json = fields.Take("targets");
  if (json == nullptr) return;
  v1::LatencyTargets& targets = *message.mutable_targets();
  JsonFields inner(*json, fields.PathOf("targets"));
  if (const auto ms = inner.TakeUint32("ttft_ms")) {
    targets.set_time_to_first_token_ms(*ms);
  }
  if (const auto ms = inner.TakeUint32("tpot_ms")) {
    targets.set_time_per_output_token_ms(*ms);
  }
  fields.Fail(inner.Finish());
}

void ReadNumbers(JsonFields& fields, v1::SamplingParams& params) {
  if (const auto v = fields.TakeFloat("temperature"))
    params.set_temperature(*v);
  if (const auto v = fields.TakeFloat("top_p")) params.set_top_p(*v);
  if (const auto v = fields.TakeFloat("min_p")) params.set_min_p(*v);
  if (const auto v = fields.TakeFloat("frequency_penalty")) {
    params.set_frequency_penalty(*v);
  }
  if (const auto v = fields.TakeFloat("presence_penalty")) {
    params.set_presence_penalty(*v);
  }
  if (const auto v = fields.TakeFloat("repetition_penalty")) {
    params.set_repetition_penalty(*v);
  }
  // Other servers use -1 for all tokens.
  if (const auto v = fields.TakeInt32("top_k")) {
    params.set_top_k(*v == -1 ? 0 : *v);
  }
  if (const auto v = fields.TakeInt32("min_tokens")) params.set_min_tokens(*v);
  if (const auto v = fields.TakeInteger("seed", 0, INT64_MAX)) {
    params.set_seed(static_cast<uint64_t>(*v));
  }
}

void ReadFlags(JsonFields& fields, v1::SamplingParams& params) {
  if (const auto v = fields.TakeBool("ignore_eos")) params.set_ignore_eos(*v);
  if (const auto v = fields.TakeBool("skip_special_tokens")) {
    params.set_skip_special_tokens(*v);
  }
  if (const auto v = fields.TakeBool("include_stop_str_in_output")) {
    params.set_include_stop_str_in_output(*v);
  }
}

}  // namespace

void ReadSampling(JsonFields& fields, v1::GenerateRequest& message) {
  v1::SamplingParams& params = *message.mutable_sampling_params();
  ReadNumbers(fields, params);
  ReadFlags(fields, params);
  ReadStop(fields, params);
  ReadStopTokens(fields, params);
  ReadLogitBias(fields, params);
  ReadSpeculation(fields, message);
  ReadTargets(fields, message);
  message.set_model(fields.TakeString("model").value_or(""));
  message.set_cache_salt(fields.TakeString("cache_salt").value_or(""));
  if (const auto v = fields.TakeInt32("priority")) message.set_priority(*v);
  if (const auto v = fields.TakeUint32("prompt_logprobs")) {
    message.set_prompt_logprobs(*v);
  }
  fields.Ignore({"user", "metadata", "safety_identifier", "prompt_cache_key",
                 "prompt_cache_retention"});
  fields.AllowOnly("store", false);
  fields.AllowOnly("service_tier", {"auto", "default"});
}

void ReadMaxTokens(JsonFields& fields, std::initializer_list<const char*> names,
                   v1::SamplingParams& params) {
  for (const char* name : names) {
    const std::optional<int32_t> value = fields.TakeInt32(name);
    if (!value) continue;
    if (params.has_max_tokens() && params.max_tokens() != *value) {
      fields.Fail(BadField(
          fields.PathOf(name), *value,
          absl::StrCat(params.max_tokens(), ", as its other name has it")));
    }
    params.set_max_tokens(*value);
  }
}

}  // namespace bole
