// The part of the engine that computes log probabilities of a prompt's tokens.
// They need no operator of their own: Sample() reports the log probability of
// the token that it draws, in the model's own distribution, and a large enough
// bias makes it draw the prompt's token.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "common/status_macros.h"
#include "worker_service/engine/engine_prefill.h"
#include "worker_service/engine/round_shape.h"

namespace bole {

// A row of a prefill pass that is followed by a token of the prompt.
struct Engine::PromptRow {
  size_t chunk;
  int32_t row;       // In the forward.
  int32_t position;  // In the sequence.
  int32_t token;     // The token that follows.
  int32_t num_top;   // Alternatives to report.
};

namespace {

// A sequence for which Sample() draws `token`.
SequencePlan DrawOf(int32_t token, int32_t num_top) {
  SequencePlan plan;
  plan.sampling.temperature = 0;
  plan.sampling.logit_bias = {{token, std::numeric_limits<float>::max()}};
  plan.sampling.top_logprobs = num_top;
  return plan;
}

}  // namespace

void Engine::BindPromptRows(int rows) {
  PrefillPass& pass = *prefill_;
  pass.shape = {.head_rows = rows};
  pass.up.Clear();
  pass.down.Clear();
  pass.last_rows.Bind(
      {.max_requests = rows, .max_rows = rows, .mask_words = 0, .max_pages = 0},
      pass.up);
  pass.counts = pass.up.Take<int32_t>(2);
  pass.head_row = pass.up.Take<int32_t>(rows);
  pass.sampling.BindParameters({.requests = rows, .rows = rows}, pass.up);
  pass.sampling.BindResults(pass.down);
  pass.sampling.BindOptional(pass.up, pass.down);
}

absl::Status Engine::AddPromptLogprobs(const StepPlan& plan, Results& results) {
  std::vector<PromptRow> rows;
  int32_t first_row = prefill_->shape.forest_rows;
  for (size_t c = 0; c < plan.prefills.size(); ++c) {
    const PrefillPlan& chunk = plan.prefills[c];
    const int count = chunk.prompt_logprobs ? chunk.NumPromptFollowers() : 0;
    for (int i = 0; i < count; ++i) {
      rows.push_back({.chunk = c,
                      .row = first_row + i,
                      .position = chunk.sequence.committed + i,
                      .token = chunk.Follower(i),
                      .num_top = *chunk.prompt_logprobs});
    }
    first_row += static_cast<int32_t>(chunk.tokens.size());
  }
  std::span<const PromptRow> left = rows;
  while (!left.empty()) {
    const size_t count = std::min<size_t>(
        left.size(), static_cast<size_t>(options_.max_requests));
    BOLE_RETURN_IF_ERROR(ReadPromptRows(left.first(count), results));
    left = left.subspan(count);
  }
  for (SequenceResult& result : results) {
    if (!result.bad_logits_position) continue;
    result.prompt_logprobs.clear();
    result.emitted.clear();
    result.proposal.reset();
  }
  return absl::OkStatus();
}

absl::Status Engine::ReadPromptRows(std::span<const PromptRow> rows,
                                    Results& results) {
  const auto count = static_cast<int>(rows.size());
  BindPromptRows(RequestBucket(count, options_.max_requests));
  PrefillPass& pass = *prefill_;
  HostRows host;
  const int32_t any_token = 0;  // Only penalties would depend on it.
  std::vector<SequencePlan> draws;
  draws.reserve(rows.size());
  std::vector<const SequencePlan*> plans;
  std::vector<int32_t> positions;
  for (int i = 0; i < count; ++i) {
    host.AddChain({&any_token, 1});
    draws.push_back(DrawOf(rows[i].token, rows[i].num_top));
    plans.push_back(&draws.back());
    positions.push_back(rows[i].position);
    pass.head_row.host[i] = rows[i].row;
  }
  pass.counts.host[1] = count;
  pass.last_rows.Fill(host, {});
  pass.sampling.Fill(plans);
  BOLE_RETURN_IF_ERROR(pass.up.Upload(pass.sampling.BytesUp(plans)));
  BOLE_RETURN_IF_ERROR(QueueHead());
  BOLE_RETURN_IF_ERROR(QueueDraws());
  BOLE_RETURN_IF_ERROR(
      pass.down.QueueDownload(pass.sampling.BytesDown(plans), /*image=*/0));
  BOLE_RETURN_IF_ERROR(device_.SetMark(kPrefillMark));
  BOLE_RETURN_IF_ERROR(device_.AwaitMark(kPrefillMark));
  Results drawn =
      pass.sampling.Results(pass.down, /*image=*/0, plans, positions);
  for (int i = 0; i < count; ++i) {
    SequenceResult& result = results[rows[i].chunk];
    if (drawn[i].bad_logits_position) {
      result.bad_logits_position =
          std::min(*drawn[i].bad_logits_position,
                   result.bad_logits_position.value_or(
                       std::numeric_limits<int32_t>::max()));
      continue;
    }
    EmittedToken& token = result.prompt_logprobs.emplace_back(
        std::move(drawn[i].emitted.front()));
    if (token.token == rows[i].token) continue;
    // Another token was drawn in spite of the bias: this one is impossible.
    token.token = rows[i].token;
    token.logprob = -std::numeric_limits<float>::infinity();
  }
  return absl::OkStatus();
}

}  // namespace bole
