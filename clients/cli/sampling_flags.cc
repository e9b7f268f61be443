#include "clients/cli/sampling_flags.h"

namespace bole {

void SamplingFlags::AddTo(CommandLine& command) {
  command.Add(
      "--max-tokens", max_tokens,
      "tokens to generate at most; without it, as many as the context holds");
  command.Add("--min-tokens", min_tokens, "nothing stops the text before");
  command.Add("--temperature", temperature, "0: always the likeliest token");
  command.Add("--top-p", top_p,
              "draw from the likeliest tokens that make up this much");
  command.Add("--top-k", top_k, "draw from so many likeliest tokens; 0: all");
  command.Add("--min-p", min_p,
              "draw from tokens of at least this share of the likeliest");
  command.Add("--presence-penalty", presence_penalty,
              "subtracted from tokens that are in the output");
  command.Add("--frequency-penalty", frequency_penalty,
              "subtracted as often as a token is in the output");
  command.Add("--repetition-penalty", repetition_penalty,
              "divides the logits of tokens that were there before");
  command.Add("--seed", seed, "one seed and one prompt give one text");
  command.Add("--stop", stop, "end before this text; may be given again")
      .OneValueEachTime();
  command.AddSwitch("--ignore-eos", ignore_eos,
                    "go on after the model's stop tokens");
  command.Add("--logprobs", logprobs,
              "log probabilities of every token and of so many likeliest "
              "beside it; they are in the JSON");
}

v1::SamplingParams SamplingFlags::ToProto() const {
  v1::SamplingParams params;
  if (max_tokens) params.set_max_tokens(*max_tokens);
  if (min_tokens) params.set_min_tokens(*min_tokens);
  if (temperature) params.set_temperature(*temperature);
  if (top_p) params.set_top_p(*top_p);
  if (top_k) params.set_top_k(*top_k);
  if (min_p) params.set_min_p(*min_p);
  if (frequency_penalty) params.set_frequency_penalty(*frequency_penalty);
  if (presence_penalty) params.set_presence_penalty(*presence_penalty);
  if (repetition_penalty) params.set_repetition_penalty(*repetition_penalty);
  if (seed) params.set_seed(*seed);
  if (logprobs) params.set_logprobs(*logprobs);
  params.mutable_stop()->Assign(stop.begin(), stop.end());
  if (ignore_eos) params.set_ignore_eos(true);
  return params;
}

}  // namespace bole
