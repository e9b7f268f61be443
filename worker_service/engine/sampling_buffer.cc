#include "worker_service/engine/sampling_buffer.h"

#include <algorithm>

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
          .min_tokens = p.min_tokens,
          .top_logprobs = p.top_logprobs};
}

}  // namespace

SamplingBuffer::SamplingBuffer(int max_rows, DeviceArrays& arrays)
    : path_row_(arrays.Array<int32_t>(max_rows, "sampling: path")) {}

void SamplingBuffer::BindParameters(const Size& size, TransferBlock& up) {
  size_ = size;
  const int64_t requests = size.requests;
  control_ = up.Take<SamplingControl>(requests);
  first_bias_ = up.Take<int32_t>(requests + 1);
  first_stop_ = up.Take<int32_t>(requests + 1);
  next_token_ = up.Take<int32_t>(requests);
  stop_token_ = up.Take<int32_t>(requests * kMaxPlanStopTokens);
}

void SamplingBuffer::BindResults(TransferBlock& down) {
  path_first_ = down.Take<int32_t>(size_.requests + 1);
  accepted_ = down.Take<int32_t>(size_.requests);
  const int emitted = std::max(size_.rows, size_.emitted_room);
  emitted_ = down.Take<int32_t>(emitted);
  logprob_ = down.Take<float>(emitted);
}

void SamplingBuffer::BindOptional(TransferBlock& up, TransferBlock& down) {
  up_.usual = up.used();
  const int64_t biases = static_cast<int64_t>(size_.requests) * kMaxLogitBiases;
  bias_token_ = up.Take<int32_t>(biases);
  bias_ = up.Take<float>(biases);
  up_.whole = up.used();

  down_.usual = down.used();
  const int64_t count = static_cast<int64_t>(size_.rows) * kMaxTopLogprobs;
  top_token_ = down.Take<int32_t>(count);
  top_logprob_ = down.Take<float>(count);
  down_.whole = down.used();
}

int64_t SamplingBuffer::BytesUp(Sequences sequences) const {
  const bool biases = std::ranges::any_of(sequences, [](const auto* sequence) {
    return !sequence->sampling.logit_bias.empty();
  });
  return biases ? up_.whole : up_.usual;
}

int64_t SamplingBuffer::BytesDown(Sequences sequences) const {
  const bool alternatives = std::ranges::any_of(
      sequences,
      [](const auto* sequence) { return sequence->sampling.top_logprobs > 0; });
  return alternatives ? down_.whole : down_.usual;
}

void SamplingBuffer::Fill(Sequences sequences) {
  std::ranges::fill(control_.values(), SamplingControl{});
  std::ranges::fill(next_token_.values(), 0);
  int32_t num_biases = 0;
  int32_t num_stops = 0;
  first_bias_.host[0] = 0;
  first_stop_.host[0] = 0;
  for (int b = 0; b < size_.requests; ++b) {
    if (b < std::ssize(sequences)) {
      const SequencePlan& sequence = *sequences[b];
      control_.host[b] = ControlOf(sequence);
      for (const auto& [token, value] : sequence.sampling.logit_bias) {
        bias_token_.host[num_biases] = token;
        bias_.host[num_biases++] = value;
      }
      for (const int32_t token : sequence.stop_tokens) {
        stop_token_.host[num_stops++] = token;
      }
    }
    first_bias_.host[b + 1] = num_biases;
    first_stop_.host[b + 1] = num_stops;
  }
}

void SamplingBuffer::SetNextTokens(std::span<const int32_t> tokens) {
  std::ranges::copy(tokens, next_token_.host);
}

SampleParams SamplingBuffer::Params() const {
  SampleParams params{};
  params.control = control_.device;
  params.first_bias = first_bias_.device;
  params.bias_token = bias_token_.device;
  params.bias = bias_.device;
  params.first_stop = first_stop_.device;
  params.stop_token = stop_token_.device;
  params.path_first = path_first_.device;
  params.path_row = path_row_;
  params.emitted = emitted_.device;
  params.logprob = logprob_.device;
  params.top_token = top_token_.device;
  params.top_logprob = top_logprob_.device;
  params.accepted = accepted_.device;
  params.next_token = next_token_.device;
  return params;
}

void SamplingBuffer::SetInputs(AdvanceRequestsParams& params) const {
  params.max_requests = size_.requests;
  params.path = path();
  params.next_token = next_token_.device;
  params.first_stop = first_stop_.device;
  params.stop_token = stop_token_.device;
  params.control = control_.device;
}

std::vector<SequenceResult> SamplingBuffer::Results(
    const TransferBlock& down, int image, Sequences sequences,
    std::span<const int32_t> committed) const {
  const std::span<const int32_t> first = down.InImage(path_first_, image);
  const std::span<const int32_t> accepted = down.InImage(accepted_, image);
  const std::span<const int32_t> emitted = down.InImage(emitted_, image);
  const std::span<const float> logprob = down.InImage(logprob_, image);
  const std::span<const int32_t> top_token = down.InImage(top_token_, image);
  const std::span<const float> top_logprob = down.InImage(top_logprob_, image);
  std::vector<SequenceResult> results(sequences.size());
  for (size_t b = 0; b < results.size(); ++b) {
    SequenceResult& result = results[b];
    result.committed = committed[b] + first[b + 1] - first[b];
    result.accepted_drafts = accepted[b];
    for (int entry = first[b]; entry < first[b + 1]; ++entry) {
      if (emitted[entry] == kNoToken) {
        result.committed = committed[b] + entry - first[b];
        result.bad_logits_position = result.committed;
        break;
      }
      EmittedToken& token = result.emitted.emplace_back();
      token.token = emitted[entry];
      token.logprob = logprob[entry];
      for (int i = 0; i < sequences[b]->sampling.top_logprobs; ++i) {
        const int at = entry * kMaxTopLogprobs + i;
        token.top.push_back({top_token[at], top_logprob[at]});
      }
    }
  }
  return results;
}

}  // namespace bole
