#include "worker_service/sampling_buffer.h"

#include "common/status_macros.h"

namespace bole {
namespace {

SamplingControl ControlOf(const SequencePlan& sequence) {
  const SamplingParams& p = sequence.sampling;
  return {.seed = p.seed,
          .temperature = p.temperature,
          .top_k = p.top_k,
          .top_p = p.top_p,
          .min_p = p.min_p,
          .presence_penalty = p.presence_penalty,
          .frequency_penalty = p.frequency_penalty,
          .repetition_penalty = p.repetition_penalty,
          .prompt_length = sequence.prompt_length,
          .max_tokens = sequence.max_new_tokens,
          .top_logprobs = p.top_logprobs};
}

}  // namespace

SamplingBuffer::SamplingBuffer(Backend& backend, int max_requests, int max_rows,
                               DeviceArrays& arrays)
    : backend_(&backend), max_requests_(max_requests) {
  const int64_t requests = max_requests;
  const int64_t rows = max_rows;
  control_ = arrays.Array<SamplingControl>(requests, "sampling: control");
  first_bias_ = arrays.Array<int32_t>(requests + 1, "sampling: biases");
  bias_token_ =
      arrays.Array<int32_t>(requests * kMaxLogitBiases, "sampling: biases");
  bias_ = arrays.Array<float>(requests * kMaxLogitBiases, "sampling: biases");
  first_stop_ = arrays.Array<int32_t>(requests + 1, "sampling: stop tokens");
  stop_token_ = arrays.Array<int32_t>(requests * kMaxPlanStopTokens,
                                      "sampling: stop tokens");
  path_first_ = arrays.Array<int32_t>(requests + 1, "sampling: path");
  path_row_ = arrays.Array<int32_t>(rows, "sampling: path");
  emitted_ = arrays.Array<int32_t>(rows, "sampling: emitted");
  logprob_ = arrays.Array<float>(rows, "sampling: logprobs");
  top_token_ =
      arrays.Array<int32_t>(rows * kMaxTopLogprobs, "sampling: top logprobs");
  top_logprob_ =
      arrays.Array<float>(rows * kMaxTopLogprobs, "sampling: top logprobs");
  accepted_ = arrays.Array<int32_t>(requests, "sampling: accepted");
  next_token_ = arrays.Array<int32_t>(requests, "sampling: next token");
}

absl::Status SamplingBuffer::Upload(
    std::span<const SequencePlan* const> sequences) {
  std::vector<SamplingControl> control;
  std::vector<int32_t> first_bias = {0};
  std::vector<int32_t> bias_token;
  std::vector<float> bias;
  std::vector<int32_t> first_stop = {0};
  std::vector<int32_t> stop_token;
  for (const SequencePlan* sequence : sequences) {
    control.push_back(ControlOf(*sequence));
    for (const auto& [token, value] : sequence->sampling.logit_bias) {
      bias_token.push_back(token);
      bias.push_back(value);
    }
    first_bias.push_back(static_cast<int32_t>(bias.size()));
    stop_token.insert(stop_token.end(), sequence->stop_tokens.begin(),
                      sequence->stop_tokens.end());
    first_stop.push_back(static_cast<int32_t>(stop_token.size()));
  }
  first_bias.resize(max_requests_ + 1, first_bias.back());
  first_stop.resize(max_requests_ + 1, first_stop.back());

  absl::Status status;
  const auto upload = [&](auto* device, const auto& host) {
    status.Update(
        backend_->Upload(device, host.data(), host.size() * sizeof(host[0])));
  };
  upload(control_, control);
  upload(first_bias_, first_bias);
  upload(bias_token_, bias_token);
  upload(bias_, bias);
  upload(first_stop_, first_stop);
  upload(stop_token_, stop_token);
  return status;
}

SampleParams SamplingBuffer::Params() const {
  SampleParams params{};
  params.control = control_;
  params.first_bias = first_bias_;
  params.bias_token = bias_token_;
  params.bias = bias_;
  params.first_stop = first_stop_;
  params.stop_token = stop_token_;
  params.path_first = path_first_;
  params.path_row = path_row_;
  params.emitted = emitted_;
  params.logprob = logprob_;
  params.top_token = top_token_;
  params.top_logprob = top_logprob_;
  params.accepted = accepted_;
  params.next_token = next_token_;
  return params;
}

absl::Status SamplingBuffer::SetNextTokens(const std::vector<int32_t>& tokens) {
  return backend_->Upload(next_token_, tokens.data(),
                          tokens.size() * sizeof(tokens[0]));
}

EmittedToken SamplingBuffer::TokenAt(int entry, int num_top) const {
  EmittedToken token{.token = host_emitted_[entry],
                     .logprob = host_logprob_[entry],
                     .top = {}};
  for (int i = 0; i < num_top; ++i) {
    const int at = entry * kMaxTopLogprobs + i;
    token.top.push_back({host_top_token_[at], host_top_logprob_[at]});
  }
  return token;
}

absl::StatusOr<std::vector<SequenceResult>> SamplingBuffer::Download(
    std::span<const SequencePlan* const> sequences) {
  absl::Status status;
  const auto download = [&](auto& host, const auto* device, size_t count) {
    host.resize(count);
    status.Update(
        backend_->Download(host.data(), device, count * sizeof(host[0])));
  };
  std::vector<int32_t> first;
  std::vector<int32_t> accepted;
  download(first, path_first_, sequences.size() + 1);
  download(accepted, accepted_, sequences.size());
  BOLE_RETURN_IF_ERROR(status);
  const size_t count = first.back();
  download(host_emitted_, emitted_, count);
  download(host_logprob_, logprob_, count);
  download(host_top_token_, top_token_, count * kMaxTopLogprobs);
  download(host_top_logprob_, top_logprob_, count * kMaxTopLogprobs);
  BOLE_RETURN_IF_ERROR(status);

  std::vector<SequenceResult> results(sequences.size());
  for (size_t b = 0; b < sequences.size(); ++b) {
    SequenceResult& result = results[b];
    result.committed = sequences[b]->committed + first[b + 1] - first[b];
    result.accepted_drafts = accepted[b];
    for (int entry = first[b]; entry < first[b + 1]; ++entry) {
      result.emitted.push_back(
          TokenAt(entry, sequences[b]->sampling.top_logprobs));
    }
  }
  return results;
}

}  // namespace bole
