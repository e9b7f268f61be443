#include "worker_service/eval/generator.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/select_nodes.h"
#include "common/status_macros.h"
#include "common/trim_tree.h"

namespace bole {
namespace {

constexpr int kPageSize = 64;

// A running request. Its pages are determined by its slot.
struct Sequence {
  size_t request;
  SlotId slot;
  std::vector<PageId> pages = {};
  int committed = 0;
  ProposalTree tree = {};  // Root: the pending token.
};

class Batch {
 public:
  Batch(Engine& engine, const GenerateOptions& options,
        std::span<const GenerateRequest> requests,
        const TokenCallback& on_token)
      : engine_(engine),
        options_(options),
        requests_(requests),
        on_token_(on_token),
        results_(requests.size()) {
    for (int i = std::min(options.max_batch, engine.limits().num_slots); i > 0;
         --i) {
      free_slots_.emplace_back(i - 1);
    }
  }

  absl::StatusOr<std::vector<GenerateResult>> Run() {
    while (next_request_ < requests_.size() || !running_.empty()) {
      Admit();
      const StepPlan plan = Plan();
      BOLE_RETURN_IF_ERROR(engine_.Step(plan, [&](StepResult result) {
        if (options_.on_step) options_.on_step(plan, result);
        Apply(std::move(result));
      }));
      BOLE_RETURN_IF_ERROR(failure_);
      RemoveDone();
    }
    return std::move(results_);
  }

 private:
  const GenerateRequest& RequestOf(const Sequence& s) const {
    return requests_[s.request];
  }
  bool InPrompt(const Sequence& s) const {
    return s.committed < std::ssize(RequestOf(s).prompt);
  }

  void Admit() {
    while (next_request_ < requests_.size() && !free_slots_.empty()) {
      const SlotId slot = free_slots_.back();
      free_slots_.pop_back();
      Sequence sequence{.request = next_request_++, .slot = slot};
      const StepLimits& limits = engine_.limits();
      const int pages =
          std::min(limits.num_pages / limits.num_slots, limits.MaxPages());
      for (int i = 0; i < pages; ++i) {
        sequence.pages.emplace_back(slot.value() * pages + i);
      }
      running_.push_back(std::move(sequence));
    }
  }

  SequencePlan PlanOf(const Sequence& s) const {
    const GenerateRequest& request = RequestOf(s);
    return {.slot = s.slot,
            .committed = s.committed,
            .pages = s.pages,
            .sampling = request.sampling,
            .stop_tokens = request.stop_tokens,
            .prompt_length = static_cast<int32_t>(request.prompt.size()),
            .max_new_tokens =
                *request.sampling.max_tokens -
                static_cast<int32_t>(results_[s.request].output.size())};
  }

  // The next tokens of the prompt: all that are left if there is room,
  // otherwise those up to a grid position, where a cut does not change the
  // result's bits. Nothing if there is no room for these.
  std::optional<PrefillPlan> ChunkOf(const Sequence& s, int room) const {
    const std::vector<int32_t>& prompt = RequestOf(s).prompt;
    int end = static_cast<int>(prompt.size());
    if (end - s.committed > room) {
      end = (s.committed + room) / kPrefillGrid * kPrefillGrid;
    }
    if (end <= s.committed) return std::nullopt;
    PrefillPlan chunk{
        .sequence = PlanOf(s),
        .tokens = {prompt.begin() + s.committed, prompt.begin() + end}};
    if (end < std::ssize(prompt)) chunk.next_token = prompt[end];
    return chunk;
  }

  StepPlan Plan() {
    StepPlan plan{.draft = options_.draft};
    std::vector<ProposalTree> trees;
    std::vector<NodeRef> selected;
    planned_.clear();
    prefilled_.clear();
    int room = engine_.limits().max_prefill_tokens;
    for (size_t i = 0; i < running_.size(); ++i) {
      const Sequence& s = running_[i];
      if (!InPrompt(s)) {
        planned_.push_back(i);
        plan.sequences.push_back(PlanOf(s));
        const int tree = static_cast<int>(trees.size());
        trees.push_back(TrimTree(s.tree,
                                 engine_.limits().max_context - s.committed,
                                 plan.sequences.back().max_new_tokens));
        for (NodeRef ref : SelectNodes(std::span(trees).last(1),
                                       options_.max_nodes_per_tree)) {
          selected.push_back({tree, ref.node});
        }
      } else if (auto chunk = ChunkOf(s, room)) {
        room -= static_cast<int>(chunk->tokens.size());
        prefilled_.push_back(i);
        plan.prefills.push_back(*std::move(chunk));
      }
    }
    plan.forest = PackForest(trees, selected).forest;
    promised_ = PromisedDrafts(trees, selected);
    if (options_.lease_rounds > 1 && plan.prefills.empty()) {
      // Every tree gets its own best nodes, as in the selection above.
      const int nodes = std::min(options_.max_nodes_per_tree,
                                 engine_.limits().max_nodes_per_tree);
      plan.lease = {.rounds = options_.lease_rounds,
                    .budget = nodes * static_cast<int>(planned_.size()),
                    .max_nodes_per_tree = nodes};
    }
    return plan;
  }

  void Apply(StepResult result) {
    for (size_t i = 0; i < prefilled_.size(); ++i) {
      Advance(running_[prefilled_[i]], std::move(result.prefills[i]));
    }
    for (size_t i = 0; i < planned_.size(); ++i) {
      Sequence& s = running_[planned_[i]];
      if (IsDone(s)) continue;  // It ended in an earlier round of the lease.
      GenerateResult& total = results_[s.request];
      ++total.rounds;
      total.accepted_drafts += result.sequences[i].accepted_drafts;
      const double promised =
          1 + result.sequences[i].promised_drafts.value_or(promised_[i]);
      const int left = PlanOf(s).max_new_tokens;
      const auto emitted = static_cast<int>(result.sequences[i].emitted.size());
      Advance(s, std::move(result.sequences[i]));
      if (left > LongestRound() && !IsDone(s)) {
        total.uncut.push_back({emitted, promised});
      }
    }
  }

  void RemoveDone() {
    std::erase_if(running_, [&](const Sequence& s) {
      if (!IsDone(s)) return false;
      free_slots_.push_back(s.slot);
      return true;
    });
  }

  void Advance(Sequence& s, SequenceResult result) {
    s.committed = result.committed;
    if (result.bad_logits_position) {
      failure_.Update(absl::InternalError(absl::StrCat(
          "prompt ", s.request, ": the model's logits at position ",
          *result.bad_logits_position, " are not numbers")));
    }
    for (EmittedToken& token : result.emitted) {
      if (on_token_) on_token_(s.request, token);
      s.tree = {.parent = {kNoParent}, .token = {token.token}, .log_rho = {0}};
      results_[s.request].output.push_back(std::move(token));
    }
    if (result.proposal) s.tree = *std::move(result.proposal);
  }

  int LongestRound() const {
    return options_.draft ? options_.draft->depth + 1 : 1;
  }

  bool IsDone(const Sequence& s) const {
    const GenerateRequest& request = RequestOf(s);
    const std::vector<EmittedToken>& output = results_[s.request].output;
    if (output.empty()) return false;
    const auto& stops = request.stop_tokens;
    return std::ssize(output) >= *request.sampling.max_tokens ||
           std::find(stops.begin(), stops.end(), output.back().token) !=
               stops.end();
  }

  Engine& engine_;
  const GenerateOptions& options_;
  std::span<const GenerateRequest> requests_;
  const TokenCallback& on_token_;
  std::vector<GenerateResult> results_;
  absl::Status failure_;
  size_t next_request_ = 0;
  std::vector<SlotId> free_slots_;
  std::vector<Sequence> running_;
  // The indices in running_ of StepPlan::prefills and ::sequences.
  std::vector<size_t> prefilled_;
  std::vector<size_t> planned_;
  std::vector<float> promised_;  // Parallel to planned_.
};

absl::Status Check(const GenerateRequest& request, size_t index,
                   int max_context) {
  if (request.prompt.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("prompt ", index, " has no tokens"));
  }
  const int64_t total = static_cast<int64_t>(request.prompt.size()) +
                        *request.sampling.max_tokens;
  if (total > max_context) {
    return absl::InvalidArgumentError(
        absl::StrCat("prompt ", index, " of ", request.prompt.size(),
                     " tokens and ", *request.sampling.max_tokens,
                     " new ones exceed the context of ", max_context));
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<std::vector<AcceptedRound>> UncutRounds(
    std::span<const GenerateResult> results) {
  std::vector<std::vector<AcceptedRound>> requests;
  requests.reserve(results.size());
  for (const GenerateResult& result : results) requests.push_back(result.uncut);
  return requests;
}

EngineOptions EngineOptionsFor(const GenerateOptions& options, int max_context,
                               int num_valid_tokens) {
  EngineOptions engine;
  engine.max_requests = options.max_batch;
  engine.max_nodes_per_tree = options.draft ? options.max_nodes_per_tree : 1;
  engine.max_nodes = options.max_batch * engine.max_nodes_per_tree;
  engine.max_draft = options.draft.value_or(DraftShape{1, 1});
  engine.num_slots = options.max_batch;
  engine.page_size = kPageSize;
  engine.max_context = max_context;
  engine.num_valid_tokens = num_valid_tokens;
  // The tree or the drafter's lanes may reach beyond the end of the context.
  engine.num_pages = options.max_batch * engine.MaxPagesPerRequest();
  return engine;
}

absl::StatusOr<std::vector<GenerateResult>> Generate(
    Engine& engine, const GenerateOptions& options,
    std::span<const GenerateRequest> requests, const TokenCallback& on_token) {
  for (size_t i = 0; i < requests.size(); ++i) {
    BOLE_RETURN_IF_ERROR(Check(requests[i], i, engine.limits().max_context));
  }
  return Batch(engine, options, requests, on_token).Run();
}

}  // namespace bole
