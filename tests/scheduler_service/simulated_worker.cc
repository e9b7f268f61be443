#include "tests/scheduler_service/simulated_worker.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/packed_forest.h"
#include "common/select_nodes.h"
#include "common/trim_tree.h"
#include "gtest/gtest.h"
#include "tests/testing/random_tree.h"

namespace bole::testing {

int32_t SimulatedToken(int position, int32_t previous) {
  const uint32_t mixed = 2654435761u * static_cast<uint32_t>(position) +
                         40503u * static_cast<uint32_t>(previous);
  return 'a' + static_cast<int32_t>((mixed >> 16) % 26);
}

std::vector<int32_t> SimulatedOutput(std::span<const int32_t> prompt,
                                     int num_tokens) {
  std::vector<int32_t> output;
  int32_t previous = prompt.back();
  for (int i = 0; i < num_tokens; ++i) {
    previous = SimulatedToken(static_cast<int>(prompt.size()) + i, previous);
    output.push_back(previous);
  }
  return output;
}

StepLimits SimulatedWorker::SmallLimits() {
  return {.max_requests = 4,
          .max_nodes = 40,
          .max_nodes_per_tree = 16,
          .max_prefill_tokens = 128,
          .max_draft = {.top_k = 3, .depth = 4},
          .num_slots = 4,
          .num_pages = 48,
          .page_size = 16,
          .max_context = 512,
          .vocabulary = 256};
}

WorkerEvent SimulatedWorker::Connect() {
  ++epoch_;
  last_plan_number_ = 0;
  disconnected_ = absl::OkStatus();
  slots_.clear();
  pages_.clear();
  plans_.clear();
  return WorkerConnected{.epoch = epoch_,
                         .description = {.model = "simulated",
                                         .device = "none",
                                         .version = "",
                                         .limits = limits_,
                                         .has_drafter = true,
                                         .stop_tokens = {}}};
}

WorkerEvent SimulatedWorker::Lose() {
  plans_.clear();
  return WorkerLost{epoch_, absl::UnavailableError("it was unplugged")};
}

void SimulatedWorker::Disconnect(uint64_t epoch, const absl::Status& why) {
  EXPECT_EQ(epoch, epoch_);
  EXPECT_FALSE(why.ok());
  disconnected_ = why;
  plans_.clear();
}

void SimulatedWorker::Send(uint64_t epoch, uint64_t plan_number,
                           const StepPlan& plan) {
  EXPECT_EQ(epoch, epoch_);
  EXPECT_EQ(plan_number, ++last_plan_number_);
  const absl::Status status = Validate(plan, limits_);
  EXPECT_TRUE(status.ok()) << status;
  plans_.push_back({epoch, plan_number, plan});
}

WorkerOutcome SimulatedWorker::Run() {
  Sent& sent = plans_.front();
  WorkerOutcome outcome{sent.epoch, sent.plan_number, StepResult{}};
  StepResult& result = *outcome.result;
  for (const PrefillPlan& chunk : sent.plan.prefills) {
    result.prefills.push_back(RunPrefill(chunk, sent.plan.draft));
  }
  for (int b = 0; b < std::ssize(sent.plan.sequences); ++b) {
    result.sequences.push_back(RunTree(sent.plan, b));
  }
  result.round = sent.round;
  if (sent.round > 0) result.forest = sent.plan.forest;
  const bool more = sent.plan.lease &&
                    sent.round + 1 < sent.plan.lease->rounds &&
                    Advance(sent, result);
  result.is_last = !more;
  if (more) {
    for (SequenceResult& of : result.sequences) of.proposal.reset();
  } else {
    plans_.pop_front();
  }
  return outcome;
}

bool SimulatedWorker::Advance(Sent& sent, const StepResult& result) const {
  std::vector<ProposalTree> trees;
  std::vector<NodeList> lists(sent.plan.sequences.size());
  std::vector<size_t> running;
  for (size_t b = 0; b < lists.size(); ++b) {
    SequencePlan& sequence = sent.plan.sequences[b];
    const SequenceResult& of = result.sequences[b];
    sequence.committed = of.committed;
    sequence.max_new_tokens -= static_cast<int>(of.emitted.size());
    const auto& stops = sequence.stop_tokens;
    const bool ended = of.emitted.empty() || of.bad_logits_position ||
                       sequence.max_new_tokens <= 0 ||
                       std::find(stops.begin(), stops.end(),
                                 of.emitted.back().token) != stops.end();
    if (ended) continue;
    running.push_back(b);
    const ProposalTree root{{kNoParent}, {of.emitted.back().token}, {0}};
    trees.push_back(TrimTree(of.proposal.value_or(root),
                             limits_.max_context - sequence.committed,
                             sequence.max_new_tokens));
  }
  const Lease& lease = *sent.plan.lease;
  const PackedForest forest =
      PackForest(trees,
                 SelectNodes(trees, lease.budget, lease.max_nodes_per_tree))
          .forest;
  for (size_t i = 0; i < running.size(); ++i) {
    const auto part = [&](const std::vector<int32_t>& values) {
      return std::vector<int32_t>(values.begin() + forest.first_node[i],
                                  values.begin() + forest.first_node[i + 1]);
    };
    lists[running[i]] = {.token = part(forest.token),
                         .parent = part(forest.parent)};
  }
  sent.plan.forest = *BuildForest(lists);
  ++sent.round;
  return !running.empty();
}

std::vector<int32_t>& SimulatedWorker::Recall(const SequencePlan& sequence) {
  std::vector<int32_t>& tokens = slots_[sequence.slot.value()];
  if (sequence.committed == 0) tokens.clear();
  EXPECT_EQ(std::ssize(tokens), sequence.committed);
  for (int i = 0; i < std::ssize(tokens); ++i) {
    const int32_t page = sequence.pages[i / limits_.page_size].value();
    EXPECT_EQ(pages_[page][i % limits_.page_size], tokens[i])
        << "position " << i << ", page " << page;
  }
  return tokens;
}

void SimulatedWorker::Commit(const SequencePlan& sequence,
                             std::span<const int32_t> tokens) {
  std::vector<int32_t>& committed = slots_[sequence.slot.value()];
  for (const int32_t token : tokens) {
    const int position = static_cast<int>(committed.size());
    const PageId page = sequence.pages[position / limits_.page_size];
    pages_[page.value()][position % limits_.page_size] = token;
    committed.push_back(token);
  }
}

bool SimulatedWorker::IsBad(const SequencePlan& sequence, int position) const {
  const auto found = bad_.find(sequence.slot.value());
  return found != bad_.end() && found->second == position;
}

bool SimulatedWorker::Emit(const SequencePlan& sequence, int32_t token,
                           SequenceResult& result) {
  result.emitted.push_back({.token = token, .logprob = -1, .top = {}});
  for (int i = 0; i < sequence.sampling.top_logprobs; ++i) {
    result.emitted.back().top.push_back({.token = i, .logprob = -1});
  }
  const auto& stops = sequence.stop_tokens;
  return std::ssize(result.emitted) < sequence.max_new_tokens &&
         std::find(stops.begin(), stops.end(), token) == stops.end();
}

SequenceResult SimulatedWorker::RunPrefill(
    const PrefillPlan& chunk, const std::optional<DraftShape>& draft) {
  Recall(chunk.sequence);
  Commit(chunk.sequence, chunk.tokens);
  const int position =
      chunk.sequence.committed + static_cast<int>(chunk.tokens.size());
  SequenceResult result;
  result.committed = position;
  if (chunk.next_token) return result;
  if (IsBad(chunk.sequence, position - 1)) {
    result.bad_logits_position = position - 1;
    return result;
  }
  const int32_t next = SimulatedToken(position, chunk.tokens.back());
  Emit(chunk.sequence, next, result);
  if (draft) result.proposal = Propose(position, next, *draft);
  return result;
}

SequenceResult SimulatedWorker::RunTree(const StepPlan& plan, int request) {
  const SequencePlan& sequence = plan.sequences[request];
  const PackedForest& forest = plan.forest;
  const int first = forest.first_node[request];
  const int num_nodes = forest.first_node[request + 1] - first;
  SequenceResult result;
  result.committed = sequence.committed;
  if (num_nodes == 0) return result;
  const int past = static_cast<int>(Recall(sequence).size());

  int node = 0;
  std::vector<int32_t> path = {forest.token[first]};
  while (true) {
    const int position = past + static_cast<int>(path.size()) - 1;
    if (IsBad(sequence, position)) {
      result.bad_logits_position = position;
      path.pop_back();
      break;
    }
    const int32_t next =
        SimulatedToken(past + static_cast<int>(path.size()), path.back());
    int child = -1;
    for (int i = 1; i < num_nodes; ++i) {
      const bool is_it =
          forest.parent[first + i] == node && forest.token[first + i] == next;
      if (is_it) child = i;
    }
    if (child >= 0) ++result.accepted_drafts;
    const bool goes_on = Emit(sequence, next, result);
    if (child < 0 || !goes_on) break;
    path.push_back(next);
    node = child;
  }
  Commit(sequence, path);
  result.committed = past + static_cast<int>(path.size());
  if (plan.draft && !result.bad_logits_position) {
    result.proposal =
        Propose(result.committed, result.emitted.back().token, *plan.draft);
  }
  return result;
}

ProposalTree SimulatedWorker::Propose(int position, int32_t root,
                                      const DraftShape& shape) {
  ProposalTree tree{{kNoParent}, {root}, {0}};
  const int true_depth = UniformInt(rng_, 0, shape.depth);
  int parent = 0;
  for (int level = 0; level < shape.depth; ++level) {
    const int32_t truth =
        SimulatedToken(position + 1 + level, tree.token[parent]);
    const int lucky = UniformInt(rng_, 0, shape.top_k - 1);
    const float rho = tree.log_rho[parent];
    int next_parent = parent;
    for (int k = 0; k < shape.top_k; ++k) {
      const bool is_true = k == lucky && level < true_depth;
      // Others are not letters, and differ from each other.
      tree.token.push_back(is_true ? truth : k);
      tree.parent.push_back(parent);
      tree.log_rho.push_back(rho - 0.1f * static_cast<float>(k + 1));
      if (k == lucky) next_parent = tree.size() - 1;
    }
    parent = next_parent;
  }
  return tree;
}

}  // namespace bole::testing
