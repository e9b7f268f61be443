#include "worker_service/engine.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace bole {
namespace {

// The widest ancestor mask a forest may need.
int MaskWords(const EngineOptions& options) {
  return (options.max_nodes_per_tree + 31) / 32;
}

int MaxPagesPerRequest(const EngineOptions& options) {
  const int kv_rows = options.max_context + options.max_draft.num_draft_nodes();
  return (kv_rows + options.page_size - 1) / options.page_size;
}

// Rows of the longest forward, the drafter's included.
int MaxRows(const EngineOptions& options) {
  return std::max({options.max_nodes, options.max_prefill_tokens,
                   options.max_requests * options.max_draft.top_k});
}

absl::Status AtLeastOne(const char* field, int value) {
  if (value >= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, " is ", value, ", not at least 1"));
}

absl::Status CheckOptions(const ModelConfig& config,
                          const EngineOptions& options) {
  BOLE_RETURN_IF_ERROR(AtLeastOne("max_requests", options.max_requests));
  if (options.max_prefill_tokens < kPrefillGrid) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_prefill_tokens is ", options.max_prefill_tokens,
                     ", not at least ", kPrefillGrid));
  }
  BOLE_RETURN_IF_ERROR(AtLeastOne("num_slots", options.num_slots));
  BOLE_RETURN_IF_ERROR(AtLeastOne("num_pages", options.num_pages));
  BOLE_RETURN_IF_ERROR(AtLeastOne("page_size", options.page_size));
  BOLE_RETURN_IF_ERROR(AtLeastOne("max_context", options.max_context));
  BOLE_RETURN_IF_ERROR(AtLeastOne("draft depth", options.max_draft.depth));
  BOLE_RETURN_IF_ERROR(AtLeastOne("draft top-k", options.max_draft.top_k));
  if (options.max_context > config.max_context()) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_context is ", options.max_context, ", the model has ",
                     config.max_context(), " positions"));
  }
  if (options.max_nodes < options.max_requests) {
    return absl::InvalidArgumentError(absl::StrCat(
        "max_nodes is ", options.max_nodes,
        ", less than one for each of max_requests = ", options.max_requests));
  }
  if (options.max_nodes_per_tree < 1 || options.max_nodes_per_tree > 128) {
    return absl::InvalidArgumentError(absl::StrCat("max_nodes_per_tree is ",
                                                   options.max_nodes_per_tree,
                                                   ", not in [1, 128]"));
  }
  if (options.max_draft.top_k > kMaxDraftTopK ||
      options.max_draft.depth > kMaxDraftDepth) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a draft of top-k ", options.max_draft.top_k, " and depth ",
        options.max_draft.depth, " is more than top-k ", kMaxDraftTopK,
        " and depth ", kMaxDraftDepth));
  }
  if (options.num_valid_tokens < 1 ||
      options.num_valid_tokens > config.vocab_size) {
    return absl::InvalidArgumentError(
        absl::StrCat("the tokenizer has ", options.num_valid_tokens,
                     " ids, the model's vocabulary ", config.vocab_size));
  }
  return absl::OkStatus();
}

HostSequence MemoryOf(const SequencePlan& sequence) {
  return {.slot = sequence.slot.value(),
          .committed = sequence.committed,
          .pages = sequence.pages};
}

}  // namespace

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(
    const ModelConfig& config, const Weights& weights, Backend& backend,
    const EngineOptions& options) {
  BOLE_RETURN_IF_ERROR(CheckOptions(config, options));
  std::unique_ptr<Engine> engine(new Engine(config, weights, backend, options));
  BOLE_RETURN_IF_ERROR(engine->arrays_.status());
  return engine;
}

Engine::Engine(const ModelConfig& config, const Weights& weights,
               Backend& backend, const EngineOptions& options)
    : config_(config),
      backend_(backend),
      options_(options),
      limits_{
          .max_requests = options.max_requests,
          .max_nodes = options.max_nodes,
          .max_nodes_per_tree = options.max_nodes_per_tree,
          .max_prefill_tokens = options.max_prefill_tokens,
          .max_draft = options.max_draft,
          .num_slots = options.num_slots,
          .num_pages = options.num_pages,
          .page_size = options.page_size,
          .max_context = std::min(options.max_context, config.max_context()),
          .vocabulary = config.vocab_size},
      arrays_(backend),
      memory_(config, options.num_slots, options.num_pages, options.page_size,
              arrays_),
      scratch_(config, MaxRows(options), arrays_),
      model_({config, weights, backend, memory_, scratch_},
             {.max_forest_rows = options.max_nodes,
              .max_prefill_rows = options.max_prefill_tokens},
             arrays_),
      forest_rows_(backend,
                   {.max_requests = options.max_requests,
                    .max_rows = options.max_nodes,
                    .mask_words = MaskWords(options),
                    .max_pages = MaxPagesPerRequest(options)},
                   "forest rows", arrays_),
      prefill_rows_(backend,
                    {.max_requests = options.max_requests,
                     .max_rows = options.max_prefill_tokens,
                     .mask_words = 0,
                     .max_pages = MaxPagesPerRequest(options)},
                    "prefill rows", arrays_),
      last_rows_(backend,
                 {.max_requests = options.max_requests,
                  .max_rows = options.max_requests,
                  .mask_words = 0,
                  .max_pages = MaxPagesPerRequest(options)},
                 "last rows", arrays_),
      sampling_(backend, options.max_requests, options.max_nodes, arrays_) {
  const int64_t hidden = config.hidden_size;
  last_row_index_ =
      arrays_.Array<int32_t>(options.max_requests, "last row indices");
  hidden_ = arrays_.Activations(MaxRows(options) * hidden, "hidden vectors");
  last_hidden_ =
      arrays_.Activations(options.max_requests * hidden, "last hidden vectors");
  logits_ = arrays_.Array<float>(
      static_cast<int64_t>(options.max_nodes) * config.vocab_size, "logits");
  if (!weights.drafter) return;
  mtp_layer_.emplace(ModelParts{config, weights, backend, memory_, scratch_},
                     MaxRows(options), arrays_);
  drafter_.emplace(
      config, backend, model_, *mtp_layer_,
      Drafter::Options{.max_requests = options.max_requests,
                       .max_rows = MaxRows(options),
                       .max_shape = options.max_draft,
                       .num_valid_tokens = options.num_valid_tokens},
      arrays_);
}

absl::StatusOr<StepResult> Engine::Step(const StepPlan& plan) {
  BOLE_RETURN_IF_ERROR(Validate(plan, limits_));
  if (plan.draft && !drafter_) {
    return absl::InvalidArgumentError(
        "the plan asks for a draft, the checkpoint has no drafter");
  }
  StepResult result;
  if (!plan.prefills.empty()) {
    BOLE_ASSIGN_OR_RETURN(result.prefills, RunPrefills(plan));
  }
  if (!plan.sequences.empty()) {
    BOLE_ASSIGN_OR_RETURN(result.sequences, RunForest(plan));
  }
  return result;
}

SampleParams Engine::SampleOf(const RowBatchBuffer& rows) const {
  SampleParams params = sampling_.Params();
  params.batch = rows.batch();
  params.vocabulary = config_.vocab_size;
  params.num_valid_tokens = options_.num_valid_tokens;
  params.token = rows.token();
  params.logits = logits_;
  params.counts = memory_.counts;
  return params;
}

absl::Status Engine::CountTokens(const RowBatchBuffer& rows,
                                 const RowPath& path) {
  return backend_.CountTokens({.batch = rows.batch(),
                               .path = path,
                               .vocabulary = config_.vocab_size,
                               .token = rows.token(),
                               .control = sampling_.control(),
                               .counts = memory_.counts});
}

// Draws the token after every chunk that ends its prompt. The last token of
// such a prompt is the root of a tree of one node, as if all before it had been
// committed.
absl::Status Engine::SamplePrefills(
    const StepPlan& plan, std::span<const SequencePlan* const> sequences) {
  HostRows rows;
  std::vector<HostSequence> memory;
  std::vector<int32_t> last_row;
  std::vector<int32_t> next_token;
  int end = 0;
  for (size_t b = 0; b < plan.prefills.size(); ++b) {
    const PrefillPlan& chunk = plan.prefills[b];
    const int length = static_cast<int>(chunk.tokens.size());
    end += length;
    memory.push_back(MemoryOf(*sequences[b]));
    memory.back().committed += length - 1;
    next_token.push_back(chunk.next_token.value_or(0));
    const bool is_last = !chunk.next_token;
    rows.AddChain(std::span(chunk.tokens).last(is_last ? 1 : 0));
    if (is_last) last_row.push_back(end - 1);
  }
  BOLE_RETURN_IF_ERROR(last_rows_.Upload(rows, memory));
  BOLE_RETURN_IF_ERROR(sampling_.SetNextTokens(next_token));
  BOLE_RETURN_IF_ERROR(backend_.Upload(last_row_index_, last_row.data(),
                                       last_row.size() * sizeof(int32_t)));
  const RowBatch& batch = last_rows_.batch();
  BOLE_RETURN_IF_ERROR(backend_.GatherRows({.rows = batch.rows,
                                            .width = config_.hidden_size,
                                            .index = last_row_index_,
                                            .x = hidden_,
                                            .out = last_hidden_}));
  BOLE_RETURN_IF_ERROR(model_.Logits(batch.rows, last_hidden_, logits_));
  return backend_.Sample(SampleOf(last_rows_));
}

absl::StatusOr<std::vector<SequenceResult>> Engine::RunPrefills(
    const StepPlan& plan) {
  HostRows rows;
  std::vector<HostSequence> memory;
  std::vector<const SequencePlan*> sequences;
  bool any_last = false;
  for (const PrefillPlan& chunk : plan.prefills) {
    rows.AddChain(chunk.tokens);
    memory.push_back(MemoryOf(chunk.sequence));
    sequences.push_back(&chunk.sequence);
    any_last = any_last || !chunk.next_token;
  }
  BOLE_RETURN_IF_ERROR(prefill_rows_.Upload(rows, memory));
  BOLE_RETURN_IF_ERROR(sampling_.Upload(sequences));
  BOLE_RETURN_IF_ERROR(model_.Forward({.batch = prefill_rows_.batch(),
                                       .token = prefill_rows_.token(),
                                       .mode = ForwardMode::kPrefill,
                                       .all_rows = prefill_rows_.all_rows()},
                                      hidden_));
  BOLE_RETURN_IF_ERROR(CountTokens(prefill_rows_, prefill_rows_.all_rows()));
  BOLE_RETURN_IF_ERROR(SamplePrefills(plan, sequences));
  const std::optional<DraftShape> shape = any_last ? plan.draft : std::nullopt;
  if (plan.draft) {
    BOLE_RETURN_IF_ERROR(
        Draft({.batch = prefill_rows_.batch(),
               .num_requests = static_cast<int>(sequences.size()),
               .token = prefill_rows_.token(),
               .path = prefill_rows_.all_rows(),
               .next_token = sampling_.next_token(),
               .hidden = hidden_},
              shape));
  }
  BOLE_ASSIGN_OR_RETURN(std::vector<SequenceResult> results,
                        Collect(sequences, shape));
  for (size_t b = 0; b < results.size(); ++b) {
    results[b].committed = plan.prefills[b].sequence.committed +
                           static_cast<int>(plan.prefills[b].tokens.size());
  }
  return results;
}

absl::StatusOr<std::vector<SequenceResult>> Engine::RunForest(
    const StepPlan& plan) {
  std::vector<HostSequence> memory;
  std::vector<const SequencePlan*> sequences;
  for (const SequencePlan& sequence : plan.sequences) {
    memory.push_back(MemoryOf(sequence));
    sequences.push_back(&sequence);
  }
  const bool is_decode = plan.forest.num_nodes() == plan.forest.num_requests();
  BOLE_RETURN_IF_ERROR(forest_rows_.Upload(RowsOf(plan.forest), memory));
  BOLE_RETURN_IF_ERROR(sampling_.Upload(sequences));
  const RowBatch& batch = forest_rows_.batch();
  BOLE_RETURN_IF_ERROR(model_.Forward(
      {.batch = batch,
       .token = forest_rows_.token(),
       .mode = is_decode ? ForwardMode::kDecode : ForwardMode::kVerify,
       .all_rows = forest_rows_.all_rows(),
       .solver = options_.solver},
      hidden_));
  BOLE_RETURN_IF_ERROR(model_.Logits(batch.rows, hidden_, logits_));
  BOLE_RETURN_IF_ERROR(backend_.Sample(SampleOf(forest_rows_)));
  if (!is_decode) {
    BOLE_RETURN_IF_ERROR(model_.Commit(batch, sampling_.path()));
  }
  BOLE_RETURN_IF_ERROR(CountTokens(forest_rows_, sampling_.path()));
  if (plan.draft) {
    BOLE_RETURN_IF_ERROR(
        Draft({.batch = batch,
               .num_requests = static_cast<int>(sequences.size()),
               .token = forest_rows_.token(),
               .path = sampling_.path(),
               .next_token = sampling_.next_token(),
               .hidden = hidden_},
              plan.draft));
  }
  return Collect(sequences, plan.draft);
}

absl::Status Engine::Draft(const Drafter::Committed& committed,
                           const std::optional<DraftShape>& shape) {
  BOLE_RETURN_IF_ERROR(drafter_->Extend(committed));
  return shape ? drafter_->Grow(committed, *shape) : absl::OkStatus();
}

absl::StatusOr<std::vector<SequenceResult>> Engine::Collect(
    std::span<const SequencePlan* const> sequences,
    const std::optional<DraftShape>& shape) {
  BOLE_ASSIGN_OR_RETURN(std::vector<SequenceResult> results,
                        sampling_.Download(sequences));
  if (!shape) return results;
  std::vector<int32_t> roots;
  roots.reserve(results.size());
  for (const SequenceResult& result : results) {
    roots.push_back(result.emitted.empty() ? 0 : result.emitted.back().token);
  }
  BOLE_ASSIGN_OR_RETURN(std::vector<ProposalTree> trees,
                        drafter_->Download(roots, *shape));
  for (size_t b = 0; b < results.size(); ++b) {
    if (!results[b].emitted.empty()) results[b].proposal = std::move(trees[b]);
  }
  return results;
}

}  // namespace bole
