#include "tests/simulation/simulated_engine.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/packed_forest.h"
#include "common/select_nodes.h"
#include "common/trim_tree.h"
#include "tests/simulation/simulated_drafter.h"

namespace bole::simulation {
namespace {

enum Purpose : uint64_t { kLogprob = 16, kDraftRow };

bool IsStop(const SequencePlan& sequence, int32_t token) {
  const std::vector<int32_t>& stops = sequence.stop_tokens;
  return std::find(stops.begin(), stops.end(), token) != stops.end();
}

// Emits tokens until the sequence ends.
class Emitter {
 public:
  Emitter(const SequencePlan& sequence, const TokenRule& rule, int vocabulary,
          SequenceResult& result)
      : sequence_(sequence),
        rule_(rule),
        vocabulary_(vocabulary),
        result_(result) {}

  // Emits the token after `history` and returns it. The sequence goes on unless
  // ended().
  int32_t Emit(const History& history) {
    const int32_t token = rule_.Next(history);
    result_.emitted.push_back(Report(token, rule_.Bits(history, kLogprob),
                                     sequence_.sampling.top_logprobs,
                                     vocabulary_));
    return token;
  }
  bool ended() const {
    return std::ssize(result_.emitted) >= sequence_.max_new_tokens ||
           IsStop(sequence_, result_.emitted.back().token);
  }

 private:
  const SequencePlan& sequence_;
  const TokenRule& rule_;
  const int vocabulary_;
  SequenceResult& result_;
};

// The child of `node` that carries `token`; none if there is none.
std::optional<int> FindChild(const PackedForest& forest, int request, int node,
                             int32_t token) {
  const int first = forest.first_node[request];
  for (int i = first + node + 1; i < forest.first_node[request + 1]; ++i) {
    if (forest.parent[i] == node && forest.token[i] == token) return i - first;
  }
  return std::nullopt;
}

NodeList NodesOf(const PackedForest& forest, int request) {
  const auto part = [&](const std::vector<int32_t>& values) {
    return std::vector<int32_t>(
        values.begin() + forest.first_node[request],
        values.begin() + forest.first_node[request + 1]);
  };
  return {.token = part(forest.token), .parent = part(forest.parent)};
}

}  // namespace

absl::Status Validate(const SimulatedEngineOptions& options) {
  const std::vector<int32_t>& alphabet = options.text.alphabet;
  const int vocabulary = options.limits.vocabulary;
  const int needed =
      options.accept.empty() ? 1 : options.limits.max_draft.top_k + 1;
  if (std::ssize(alphabet) < needed) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the alphabet has ", alphabet.size(), " tokens, ", needed,
        " are needed: one more than the children of a drafted node"));
  }
  for (const auto* tokens : {&alphabet, &options.text.stop_tokens}) {
    for (const int32_t token : *tokens) {
      if (token >= 0 && token < vocabulary) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "token ", token, " is not in the vocabulary of ", vocabulary));
    }
  }
  std::vector<double> probabilities = options.accept;
  probabilities.insert(probabilities.end(), options.accept_of_odd.begin(),
                       options.accept_of_odd.end());
  probabilities.push_back(options.text.stop_probability);
  for (const double probability : probabilities) {
    if (probability >= 0 && probability <= 1) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("probability ", probability, " is not in [0, 1]"));
  }
  return absl::OkStatus();
}

SimulatedEngine::SimulatedEngine(SimulatedEngineOptions options)
    : options_(std::move(options)), memory_(options_.limits) {}

StepResult SimulatedEngine::RunRound(const StepPlan& plan) {
  num_problems_before_ = num_problems_;
  memory_.Copy(plan);
  StepResult result;
  result.prefills.reserve(plan.prefills.size());
  for (const PrefillPlan& chunk : plan.prefills) {
    result.prefills.push_back(RunPrefill(chunk, plan));
  }
  result.sequences.reserve(plan.sequences.size());
  for (int b = 0; b < std::ssize(plan.sequences); ++b) {
    result.sequences.push_back(RunTree(plan, b));
  }
  return result;
}

History SimulatedEngine::Read(const SequencePlan& sequence) {
  SimulatedMemory::Found found = memory_.Read(sequence);
  if (!found.problem.empty()) Report(std::move(found.problem));
  return found.history;
}

void SimulatedEngine::Report(std::string problem) {
  if (num_problems_++ == num_problems_before_) {
    last_problem_ = std::move(problem);
  }
}

void SimulatedEngine::ShowTail(const SequencePlan& sequence, int32_t pending) {
  const std::vector<int32_t>& tail = sequence.draft_tail;
  if (tail.empty()) return;
  SimulatedMemory::Drafted& drafted = memory_.drafted(sequence.slot);
  const auto length = static_cast<int32_t>(tail.size());
  // The tail fills the gap that it covers, even if its tokens are wrong.
  if (drafted.seen >= sequence.committed - length) {
    drafted.seen = sequence.committed;
  }
  if (length > std::ssize(drafted.kept)) {
    Report(absl::StrCat("slot ", sequence.slot.value(), " keeps ",
                        drafted.kept.size(), " tokens for its drafter, not ",
                        length));
    return;
  }
  // The first token of the tail comes after the first token that was not seen.
  const auto first = drafted.kept.end() - length;
  std::vector<int32_t> missed;
  for (auto kept = first + 1; kept != drafted.kept.end(); ++kept) {
    missed.push_back(kept->token);
  }
  missed.push_back(pending);
  if (missed != tail) {
    Report(absl::StrCat("the draft tail of slot ", sequence.slot.value(),
                        " has other tokens than its sequence"));
  }
  for (int32_t i = 0; i < length; ++i) {
    memory_.WriteDraft(sequence.pages, sequence.committed - length + i + 1,
                       DraftOf(first[i].history, tail[i]));
  }
}

void SimulatedEngine::ShowCommitted(
    const SequencePlan& sequence, Seen when,
    std::span<const SimulatedMemory::Kept> tokens, int32_t next) {
  SimulatedMemory::Drafted& drafted = memory_.drafted(sequence.slot);
  if (sequence.committed == 0) drafted.seen = 0;
  if (when == Seen::kNow) {
    if (drafted.seen == sequence.committed) {
      drafted.seen += static_cast<int32_t>(tokens.size());
    }
    for (int i = 0; i < std::ssize(tokens); ++i) {
      const bool is_last = i + 1 == std::ssize(tokens);
      memory_.WriteDraft(
          sequence.pages, sequence.committed + i + 1,
          DraftOf(tokens[i].history, is_last ? next : tokens[i + 1].token));
    }
  }
  // Only the last token that the drafter has seen is kept, for a sequence that
  // goes on from a copy with another next token.
  if (when != Seen::kLater) drafted.kept.clear();
  if (when == Seen::kNow && !tokens.empty()) tokens = tokens.last(1);
  if (when == Seen::kNever) return;
  drafted.kept.insert(drafted.kept.end(), tokens.begin(), tokens.end());
  while (std::ssize(drafted.kept) > kMaxDraftTail) drafted.kept.pop_front();
}

bool SimulatedEngine::IsBad(const SequencePlan& sequence, int position) const {
  const auto found = bad_.find(sequence.slot.value());
  return found != bad_.end() && found->second == position;
}

SequenceResult SimulatedEngine::RunPrefill(const PrefillPlan& chunk,
                                           const StepPlan& plan) {
  const SequencePlan& sequence = chunk.sequence;
  const TokenRule rule(options_.text, sequence.prompt_length, sequence.sampling,
                       sequence.stop_tokens);
  const int num_followers =
      chunk.prompt_logprobs ? chunk.NumPromptFollowers() : 0;
  SequenceResult result;
  History history = Read(sequence);
  ShowTail(sequence, chunk.tokens[0]);
  std::vector<SimulatedMemory::Kept> tokens;
  for (int i = 0; i < std::ssize(chunk.tokens); ++i) {
    const int32_t token = chunk.tokens[i];
    const int position = history.length;
    memory_.WriteRow(sequence.pages, position, RowOf(history, token));
    history = Append(history, token, sequence.prompt_length);
    tokens.push_back({token, history});
    const bool is_drawn =
        i + 1 == std::ssize(chunk.tokens) && !chunk.next_token;
    if ((is_drawn || i < num_followers) && IsBad(sequence, position)) {
      result.bad_logits_position = position;
    }
    if (i >= num_followers) continue;
    result.prompt_logprobs.push_back(
        ReportOfPrompt(options_.text, history, chunk.Follower(i),
                       *chunk.prompt_logprobs, options_.limits.vocabulary));
  }
  memory_.WriteSlot(sequence.slot, history);
  result.committed = history.length;
  if (result.bad_logits_position) result.prompt_logprobs.clear();
  const bool draws = !chunk.next_token && !result.bad_logits_position;
  int32_t next = chunk.next_token.value_or(0);
  if (draws) {
    next = Emitter(sequence, rule, options_.limits.vocabulary, result)
               .Emit(history);
  }
  ShowCommitted(sequence,
                !sequence.skips_drafter && (plan.draft || plan.defers_draft)
                    ? Seen::kNow
                    : Seen::kNever,
                tokens, next);
  if (draws && plan.draft && !sequence.skips_drafter) {
    Draft(sequence, rule, history, *plan.draft, result);
  }
  return result;
}

SequenceResult SimulatedEngine::RunTree(const StepPlan& plan, int request) {
  const SequencePlan& sequence = plan.sequences[request];
  const NodeList nodes = NodesOf(plan.forest, request);
  const auto num_nodes = static_cast<int>(nodes.token.size());
  SequenceResult result;
  result.committed = sequence.committed;
  if (num_nodes == 0) return result;

  // The forward pass: a row for every node, after the committed rows.
  const History found = Read(sequence);
  ShowTail(sequence, nodes.token[0]);
  std::vector<History> after;  // [nodes] The history that ends in each.
  after.reserve(num_nodes);
  for (int i = 0; i < num_nodes; ++i) {
    const int parent = nodes.parent[i];
    const History& before = parent == kNoParent ? found : after[parent];
    memory_.WriteRow(sequence.pages, sequence.committed + i,
                     RowOf(before, nodes.token[i]));
    after.push_back(Append(before, nodes.token[i], sequence.prompt_length));
  }

  // Acceptance: go down the tree while it contains what the model emits.
  const TokenRule rule(options_.text, sequence.prompt_length, sequence.sampling,
                       sequence.stop_tokens);
  Emitter emitter(sequence, rule, options_.limits.vocabulary, result);
  std::vector<int> path = {0};
  while (true) {
    const int position = after[path.back()].length - 1;
    if (IsBad(sequence, position)) {
      result.bad_logits_position = position;
      path.pop_back();
      break;
    }
    const int32_t token = emitter.Emit(after[path.back()]);
    const std::optional<int> child =
        FindChild(plan.forest, request, path.back(), token);
    if (child) ++result.accepted_drafts;
    if (!child || emitter.ended()) break;
    path.push_back(*child);
  }

  // The commit: move the rows of the path next to each other.
  std::vector<SimulatedMemory::Kept> tokens;
  for (int i = 0; i < std::ssize(path); ++i) {
    memory_.WriteRow(
        sequence.pages, sequence.committed + i,
        memory_.ReadRow(sequence.pages, sequence.committed + path[i]));
    tokens.push_back({nodes.token[path[i]], after[path[i]]});
  }
  const bool drafts = plan.draft && !sequence.skips_drafter;
  ShowCommitted(sequence, SeenAfter(plan, sequence), tokens,
                result.emitted.empty() ? 0 : result.emitted.back().token);
  const History& end = path.empty() ? found : after[path.back()];
  memory_.WriteSlot(sequence.slot, end);
  result.committed = end.length;
  if (drafts && !result.bad_logits_position) {
    Draft(sequence, rule, end, *plan.draft, result);
  }
  return result;
}

bool SimulatedEngine::HasDrafts(const SequencePlan& sequence,
                                const History& history, int32_t next) const {
  const uint64_t expected =
      history.drafts + DraftOf(history, next) * history.power;
  return memory_.SumOfDrafts(sequence.pages, history.length + 1) == expected;
}

void SimulatedEngine::Draft(const SequencePlan& sequence, const TokenRule& rule,
                            const History& history, const DraftShape& shape,
                            SequenceResult& result) {
  const int32_t seen = memory_.drafted(sequence.slot).seen;
  History known = history;
  if (seen < history.length) {
    known.state = Mix(history.state, seen);
    Report(absl::StrCat("a draft for slot ", sequence.slot.value(),
                        ", whose drafter has seen ", seen, " of its ",
                        history.length, " tokens"));
  } else if (!HasDrafts(sequence, history, result.emitted.back().token)) {
    known.state = Mix(history.state, seen);
    Report(absl::StrCat("the pages of slot ", sequence.slot.value(),
                        " do not hold what its drafter has of its ",
                        history.length, " tokens"));
  }
  const uint64_t garbage = rule.Bits(history, kDraftRow);
  for (int i = 0; i < shape.num_draft_nodes(); ++i) {
    memory_.WriteRow(sequence.pages, history.length + 1 + i, Mix(garbage, i));
  }
  const bool is_odd =
      rule.prompt_length() % 2 == 1 && !options_.accept_of_odd.empty();
  const std::vector<double>& accept =
      is_odd ? options_.accept_of_odd : options_.accept;
  result.proposal = Propose(options_.text, accept, rule, known,
                            result.emitted.back().token, shape);
}

bool SimulatedEngine::FinishRound(int index, StepPlan& plan,
                                  StepResult& result) {
  result.round = index;
  if (index > 0) result.forest = plan.forest;
  for (size_t b = 0; index > 0 && plan.draft && b < promised_.size(); ++b) {
    result.sequences[b].promised_drafts = promised_[b];
  }
  const int num_rounds = plan.lease ? plan.lease->rounds : 1;
  result.is_last = index + 1 == num_rounds || !Advance(plan, result);
  if (result.is_last) return false;
  plan.to_host = plan.from_host = plan.copies = {};
  for (SequenceResult& of : result.sequences) of.proposal.reset();
  return true;
}

// Turns the plan into that of the next round. Returns false if all sequences
// have ended.
bool SimulatedEngine::Advance(StepPlan& plan, const StepResult& result) {
  const Lease& lease = *plan.lease;
  std::vector<ProposalTree> trees;
  std::vector<TreeBounds> bounds;
  std::vector<size_t> running;
  for (size_t b = 0; b < plan.sequences.size(); ++b) {
    SequencePlan& sequence = plan.sequences[b];
    const SequenceResult& of = result.sequences[b];
    sequence.committed = of.committed;
    sequence.draft_tail.clear();
    sequence.max_new_tokens -= static_cast<int>(of.emitted.size());
    const int positions = options_.limits.max_context - sequence.committed;
    const bool ended = of.emitted.empty() || of.bad_logits_position ||
                       positions <= 0 || sequence.max_new_tokens <= 0 ||
                       IsStop(sequence, of.emitted.back().token);
    if (ended) continue;
    const ProposalTree root{.parent = {kNoParent},
                            .token = {of.emitted.back().token},
                            .log_rho = {0}};
    running.push_back(b);
    bounds.push_back(lease.bounds.empty()
                         ? TreeBounds{.cap = lease.max_nodes_per_tree}
                         : lease.bounds[b]);
    trees.push_back(TrimTree(of.proposal.value_or(root), positions,
                             sequence.max_new_tokens));
  }
  const std::vector<NodeRef> selected =
      SelectNodes(trees, lease.budget, bounds);
  const PackedForest chosen = PackForest(trees, selected).forest;
  const std::vector<float> promised = PromisedDrafts(trees, selected);
  std::vector<NodeList> lists(plan.sequences.size());
  promised_.assign(plan.sequences.size(), 0);
  for (size_t i = 0; i < running.size(); ++i) {
    lists[running[i]] = NodesOf(chosen, static_cast<int>(i));
    promised_[running[i]] = promised[i];
  }
  plan.forest = *BuildForest(lists);
  return !running.empty();
}

}  // namespace bole::simulation
