// The part of the engine that runs prefill chunks, alone or in one forward with
// a forest.
#include "worker_service/engine/engine_prefill.h"

#include <algorithm>
#include <numeric>

#include "common/status_macros.h"
#include "worker_service/engine/round_shape.h"
#include "worker_service/model/device_arrays.h"

namespace bole {

// Allocates room for the largest pass.
void Engine::AllocatePrefills() {
  prefill_ = std::make_unique<PrefillPass>(
      PrefillPass{.sampling = SamplingBuffer(options_.max_requests, arrays_)});
  if (drafter_) prefill_->drafter.emplace(*drafter_);
  BindPrefill(
      {.requests = options_.max_requests,
       .rows = options_.max_prefill_tokens,
       .draft = drafter_ ? std::optional(options_.max_draft) : std::nullopt,
       .head_rows = options_.MaxHeadRows()});
  prefill_->up = TransferBlock(prefill_->up.used(), /*num_images=*/1,
                               "plans: chunks", arrays_);
  prefill_->down = TransferBlock(prefill_->down.used(),
                                 /*num_images=*/1, "results: chunks", arrays_);
}

Engine::PrefillShape Engine::PrefillShapeOf(const StepPlan& plan) const {
  int num_rows = 0;
  int num_last = 0;
  bool feeds_drafter = drafter_ && (plan.draft || plan.defers_draft);
  if (feeds_drafter) feeds_drafter = !plan.prefills[0].sequence.skips_drafter;
  for (const PrefillPlan& chunk : plan.prefills) {
    num_rows += static_cast<int>(chunk.tokens.size());
    num_last += chunk.next_token ? 0 : 1;
  }
  const int nodes = plan.forest.num_nodes();
  const int num_head_rows = num_last == 0 ? 0 : nodes + num_last;
  return {
      .requests = RequestBucket(static_cast<int>(plan.prefills.size()),
                                options_.max_requests),
      .rows = RowBucket(num_rows, options_.max_prefill_tokens),
      .draft = plan.draft,
      .extends_drafter = feeds_drafter,
      .forest_rows = nodes,
      .forward_rows = RowBucket(nodes + num_rows, options_.MaxForwardRows()),
      .head_rows = num_head_rows == 0
                       ? 0
                       : RowBucket(num_head_rows, options_.MaxHeadRows())};
}

void Engine::BindPrefill(const PrefillShape& shape) {
  PrefillPass& pass = *prefill_;
  pass.shape = shape;
  pass.up.Clear();
  pass.down.Clear();
  RowBatchCapacity capacity{.max_requests = shape.requests,
                            .max_rows = shape.rows,
                            .mask_words = 0,
                            .max_pages = options_.MaxPagesPerRequest()};
  pass.rows.Bind(capacity, pass.up);
  capacity.max_rows = shape.requests;
  pass.last_rows.Bind(capacity, pass.up);
  pass.counts = pass.up.Take<int32_t>(3);
  pass.head_row = pass.up.Take<int32_t>(shape.head_rows);
  pass.sampling.BindParameters(
      {.requests = shape.requests, .rows = shape.requests}, pass.up);
  pass.sampling.BindResults(pass.down);
  if (shape.draft) {
    pass.drafter->Bind(shape.requests, *shape.draft, pass.up, pass.down);
  }
  pass.sampling.BindOptional(pass.up, pass.down);
}

// The last token of a chunk that ends its prompt is also the root of a one-node
// tree, as if all tokens before it had been committed. The next token is drawn
// from that node's logits.
void Engine::FillPrefill(const StepPlan& plan) {
  PrefillPass& pass = *prefill_;
  HostRows rows;
  HostRows last_rows;
  std::vector<HostSequence> memory;
  std::vector<HostSequence> last_memory;
  std::vector<int32_t> next_token;
  std::vector<int32_t> head_row(pass.shape.forest_rows);
  std::iota(head_row.begin(), head_row.end(), 0);
  pass.planned.clear();
  for (const PrefillPlan& chunk : plan.prefills) {
    pass.planned.push_back(&chunk.sequence);
    rows.AddChain(chunk.tokens);
    memory.push_back(MemoryOf(chunk.sequence));
    last_memory.push_back(memory.back());
    last_memory.back().committed += static_cast<int>(chunk.tokens.size()) - 1;
    next_token.push_back(chunk.next_token.value_or(0));
    const bool is_last = !chunk.next_token;
    last_rows.AddChain(std::span(chunk.tokens).last(is_last ? 1 : 0));
    if (is_last) {
      head_row.push_back(pass.shape.forest_rows + rows.num_rows() - 1);
    }
  }
  pass.rows.Fill(rows, memory);
  pass.last_rows.Fill(last_rows, last_memory);
  pass.counts.host[0] = pass.shape.forest_rows + rows.num_rows();
  pass.counts.host[1] = static_cast<int32_t>(head_row.size());
  const int num_drafted = NumDrafted(pass.sequences());
  pass.counts.host[2] = num_drafted;
  if (pass.shape.head_rows > 0) {
    std::ranges::copy(head_row, pass.head_row.host);
  }
  pass.sampling.Fill(pass.sequences());
  pass.sampling.SetNextTokens(next_token);
  if (plan.draft) pass.drafter->Fill(num_drafted);
}

absl::Status Engine::UploadPrefills(const StepPlan& plan) {
  BindPrefill(PrefillShapeOf(plan));
  FillPrefill(plan);
  return prefill_->up.Upload(prefill_->sampling.BytesUp(prefill_->sequences()));
}

absl::StatusOr<Engine::Results> Engine::RunPrefills(const StepPlan& plan) {
  BOLE_RETURN_IF_ERROR(UploadPrefills(plan));
  BOLE_RETURN_IF_ERROR(QueuePrefills());
  BOLE_RETURN_IF_ERROR(QueuePrefillDownload());
  BOLE_RETURN_IF_ERROR(device_.SetMark(kPrefillMark));
  BOLE_RETURN_IF_ERROR(device_.AwaitMark(kPrefillMark));
  return ReadPrefills(plan);
}

absl::Status Engine::QueuePrefills() {
  BOLE_RETURN_IF_ERROR(model_.Forward(ChunksOfForward(), hidden_));
  if (prefill_->shape.head_rows > 0) BOLE_RETURN_IF_ERROR(QueueHead());
  BOLE_RETURN_IF_ERROR(QueuePrefillAccept());
  return QueuePrefillDraft();
}

ForwardPart Engine::ChunksOfForward() const {
  const RowArrays& rows = prefill_->rows;
  return {.batch = rows.batch(),
          .token = rows.token(),
          .mode = ForwardMode::kPrefill,
          .all_rows = rows.all_rows(),
          .first_row = prefill_->shape.forest_rows};
}

absl::Status Engine::QueueJointForward(const RoundShape& shape) {
  const ForwardPart parts[] = {ChunksOfForward(), ForestOfForward(shape)};
  BOLE_RETURN_IF_ERROR(
      model_.Forward(parts, prefill_->forward_rows(), hidden_));
  if (prefill_->shape.head_rows > 0) return QueueHead();
  return model_.Logits(rows_.batch().rows, hidden_, logits_);
}

absl::Status Engine::QueueHead() {
  const RowCount rows = prefill_->head_rows();
  BOLE_RETURN_IF_ERROR(
      operators_.GatherRows({.rows = rows,
                             .width = config_.hidden_size,
                             .index = prefill_->head_row.device,
                             .x = hidden_,
                             .out = head_hidden_}));
  return model_.Logits(rows, head_hidden_, logits_);
}

absl::Status Engine::QueuePrefillAccept() {
  const RowArrays& rows = prefill_->rows;
  BOLE_RETURN_IF_ERROR(CountTokens(rows, rows.all_rows(), prefill_->sampling));
  return prefill_->shape.head_rows > 0 ? QueueDraws() : absl::OkStatus();
}

absl::Status Engine::QueueDraws() {
  SampleParams params = SampleOf(prefill_->last_rows, prefill_->sampling);
  params.first_logits = prefill_->shape.forest_rows;
  return operators_.Sample(params);
}

absl::Status Engine::QueuePrefillDraft() {
  PrefillPass& pass = *prefill_;
  if (!pass.shape.extends_drafter) return absl::OkStatus();
  const int64_t first = pass.shape.forest_rows;
  const Drafter::Committed committed{
      .batch = pass.rows.batch(),
      .token = pass.rows.token(),
      .path = pass.rows.all_rows(),
      .max_path_rows = pass.rows.batch().rows.max,
      .next_token = pass.sampling.next_token(),
      .hidden = ElementAt(hidden_, first * config_.hidden_size, scratch_.type),
      .num_seen = pass.num_drafted()};
  BOLE_RETURN_IF_ERROR(draft_tails_->Keep(committed, /*most=*/1));
  BOLE_RETURN_IF_ERROR(pass.drafter->Extend(committed));
  const bool draws = pass.shape.head_rows > 0;
  return draws && pass.shape.draft ? pass.drafter->Grow(committed)
                                   : absl::OkStatus();
}

absl::Status Engine::QueuePrefillDownload() {
  if (prefill_->shape.head_rows == 0) return absl::OkStatus();
  return prefill_->down.QueueDownload(
      prefill_->sampling.BytesDown(prefill_->sequences()), /*image=*/0);
}

absl::StatusOr<Engine::Results> Engine::ReadPrefills(const StepPlan& plan) {
  const PrefillPass& pass = *prefill_;
  Results results(plan.prefills.size());
  std::vector<int32_t> last;  // The position of each chunk's last token.
  for (const PrefillPlan& chunk : plan.prefills) {
    last.push_back(chunk.sequence.committed +
                   static_cast<int>(chunk.tokens.size()) - 1);
  }
  if (pass.shape.head_rows > 0) {
    // The path of a chunk is its last token.
    results =
        pass.sampling.Results(pass.down, /*image=*/0, pass.sequences(), last);
    if (plan.draft) {
      AddProposals(*pass.drafter, pass.down, /*image=*/0, pass.sequences(),
                   results);
    }
  }
  for (size_t b = 0; b < results.size(); ++b) {
    results[b].committed = last[b] + 1;
  }
  BOLE_RETURN_IF_ERROR(AddPromptLogprobs(plan, results));
  return results;
}

}  // namespace bole
