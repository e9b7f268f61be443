// The engine's part for prefill chunks.
#include "worker_service/engine_prefill.h"

#include "common/status_macros.h"

namespace bole {

void Engine::LayPrefill(const PrefillShape& shape, TransferBlock& up,
                        TransferBlock& down) {
  up.Clear();
  down.Clear();
  RowBatchCapacity capacity{.max_requests = shape.requests,
                            .max_rows = shape.rows,
                            .mask_words = 0,
                            .max_pages = options_.MaxPagesPerRequest()};
  rows_.Lay(capacity, up);
  capacity.max_rows = shape.requests;
  last_rows_.Lay(capacity, up);
  last_row_index_ = up.Take<int32_t>(shape.requests);
  sampling_.LayParameters({.requests = shape.requests, .rows = shape.requests},
                          up);
  sampling_.LayResults(down);
  if (shape.draft) drafter_->Lay(shape.requests, *shape.draft, up, down);
  LayOptional(up, down);
}

// The last token of a chunk that ends its prompt is also the root of a tree of
// one node, as if all before it had been committed: from it the next token is
// drawn.
void Engine::FillPrefill(const StepPlan& plan, Sequences sequences) {
  HostRows rows;
  HostRows last_rows;
  std::vector<HostSequence> memory;
  std::vector<HostSequence> last_memory;
  std::vector<int32_t> next_token;
  int num_last = 0;
  for (const PrefillPlan& chunk : plan.prefills) {
    rows.AddChain(chunk.tokens);
    memory.push_back(MemoryOf(chunk.sequence));
    last_memory.push_back(memory.back());
    last_memory.back().committed += static_cast<int>(chunk.tokens.size()) - 1;
    next_token.push_back(chunk.next_token.value_or(0));
    const bool is_last = !chunk.next_token;
    last_rows.AddChain(std::span(chunk.tokens).last(is_last ? 1 : 0));
    if (is_last) last_row_index_.host[num_last++] = rows.num_rows() - 1;
  }
  rows_.Fill(rows, memory);
  last_rows_.Fill(last_rows, last_memory);
  sampling_.Fill(sequences);
  sampling_.SetNextTokens(next_token);
  if (plan.draft) drafter_->Fill(static_cast<int>(plan.prefills.size()));
}

absl::StatusOr<Engine::Results> Engine::RunPrefills(const StepPlan& plan) {
  std::vector<const SequencePlan*> sequences;
  int num_rows = 0;
  bool any_last = false;
  for (const PrefillPlan& chunk : plan.prefills) {
    sequences.push_back(&chunk.sequence);
    num_rows += static_cast<int>(chunk.tokens.size());
    any_last = any_last || !chunk.next_token;
  }
  LayPrefill({.requests = RequestBucket(static_cast<int>(sequences.size()),
                                        options_.max_requests),
              .rows = RowBucket(num_rows, options_.max_prefill_tokens),
              .draft = plan.draft},
             up_, down_);
  FillPrefill(plan, sequences);
  BOLE_RETURN_IF_ERROR(Upload(sequences));
  BOLE_RETURN_IF_ERROR(QueuePrefill(plan, any_last));
  if (any_last) BOLE_RETURN_IF_ERROR(QueueDownload(sequences, /*image=*/0));
  BOLE_RETURN_IF_ERROR(backend_.SetMark(kPrefillMark));
  BOLE_RETURN_IF_ERROR(backend_.AwaitMark(kPrefillMark));
  Results results = any_last ? ReadResults(sequences, plan.draft, /*image=*/0)
                             : Results(sequences.size());
  for (size_t b = 0; b < results.size(); ++b) {
    SequenceResult& result = results[b];
    result.committed = plan.prefills[b].sequence.committed +
                       static_cast<int>(plan.prefills[b].tokens.size());
    if (result.bad_logits_position) {
      result.bad_logits_position = result.committed - 1;
    }
  }
  BOLE_RETURN_IF_ERROR(AddPromptLogprobs(plan, results));
  return results;
}

absl::Status Engine::QueuePrefill(const StepPlan& plan, bool any_last) {
  BOLE_RETURN_IF_ERROR(model_.Forward({.batch = rows_.batch(),
                                       .token = rows_.token(),
                                       .mode = ForwardMode::kPrefill,
                                       .all_rows = rows_.all_rows()},
                                      hidden_));
  BOLE_RETURN_IF_ERROR(CountTokens(rows_, rows_.all_rows()));
  if (any_last) BOLE_RETURN_IF_ERROR(QueueTokens());
  if (!plan.draft && !plan.defers_draft) return absl::OkStatus();
  const Drafter::Committed committed{.batch = rows_.batch(),
                                     .token = rows_.token(),
                                     .path = rows_.all_rows(),
                                     .max_path_rows = rows_.batch().rows.max,
                                     .next_token = sampling_.next_token(),
                                     .hidden = hidden_};
  BOLE_RETURN_IF_ERROR(drafter_->Extend(committed));
  return plan.draft && any_last ? drafter_->Grow(committed) : absl::OkStatus();
}

absl::Status Engine::QueueTokens() {
  const RowCount rows = last_rows_.batch().rows;
  BOLE_RETURN_IF_ERROR(backend_.GatherRows({.rows = rows,
                                            .width = config_.hidden_size,
                                            .index = last_row_index_.device,
                                            .x = hidden_,
                                            .out = last_hidden_}));
  BOLE_RETURN_IF_ERROR(model_.Logits(rows, last_hidden_, logits_));
  return backend_.Sample(SampleOf(last_rows_));
}

}  // namespace bole
