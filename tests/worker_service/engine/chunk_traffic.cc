#include "tests/worker_service/engine/chunk_traffic.h"

#include <algorithm>
#include <utility>

#include "common/packed_forest.h"
#include "common/select_nodes.h"
#include "common/status_macros.h"
#include "common/trim_tree.h"
#include "tests/testing/random_tree.h"

namespace bole::testing_support {
namespace {

constexpr int kMaxTokens = 12;

using testing::UniformInt;

}  // namespace

ChunkTraffic::ChunkTraffic(Options options)
    : options_(std::move(options)), rng_(options_.seed) {
  for (int slot = 0; slot < options_.limits.max_requests; ++slot) {
    requests_.push_back(NewRequest(slot));
  }
}

ChunkTraffic::Request ChunkTraffic::NewRequest(int number) {
  const StepLimits& limits = options_.limits;
  const int text = static_cast<int>(options_.text.size());
  const int length = UniformInt(rng_, 1, options_.max_prompt);
  const auto begin = options_.text.begin() + UniformInt(rng_, 0, text - length);
  Request request{.prompt = {begin, begin + length}};
  SequencePlan& sequence = request.sequence;
  sequence.slot = SlotId(number);
  const int pages = limits.num_pages / limits.num_slots;
  for (int i = 0; i < std::min(pages, limits.MaxPages()); ++i) {
    sequence.pages.emplace_back(number * pages + i);
  }
  sequence.prompt_length = length;
  sequence.max_new_tokens = UniformInt(rng_, 1, kMaxTokens);
  const int kind = UniformInt(rng_, 0, 5);
  SamplingParams& sampling = sequence.sampling;
  sampling.seed = static_cast<uint64_t>(UniformInt(rng_, 1, 1 << 20));
  sampling.temperature = kind % 2 == 0 ? 0 : 0.8f;
  if (kind == 2) sampling.frequency_penalty = 0.5f;
  if (kind == 3) {
    sampling.logprobs = true;
    sampling.top_logprobs = 2;
  }
  if (kind == 4) sampling.logit_bias = {{request.prompt[0], 3.0f}};
  if (kind >= 4) request.prompt_logprobs = kind - 4;
  return request;
}

std::optional<PrefillPlan> ChunkTraffic::ChunkOf(const Request& request,
                                                 int room) {
  const int most = std::min(room, request.left_of_prompt());
  if (most == 0) return std::nullopt;
  const int count =
      UniformInt(rng_, 0, 1) == 0 ? most : UniformInt(rng_, 1, most);
  const auto begin = request.prompt.begin() + request.sequence.committed;
  PrefillPlan chunk{.sequence = request.sequence,
                    .tokens = {begin, begin + count},
                    .prompt_logprobs = request.prompt_logprobs};
  if (count < request.left_of_prompt()) chunk.next_token = begin[count];
  return chunk;
}

StepPlan ChunkTraffic::Plan() {
  const StepLimits& limits = options_.limits;
  StepPlan plan{.draft = options_.draft};
  std::vector<ProposalTree> trees;
  int room = limits.max_prefill_tokens;
  for (const Request& request : requests_) {
    if (request.left_of_prompt() > 0) {
      if (auto chunk = ChunkOf(request, room)) {
        room -= static_cast<int>(chunk->tokens.size());
        plan.prefills.push_back(*std::move(chunk));
      }
      continue;
    }
    const SequencePlan& sequence = request.sequence;
    plan.sequences.push_back(sequence);
    trees.push_back(TrimTree(request.tree,
                             limits.max_context - sequence.committed,
                             sequence.max_new_tokens));
  }
  if (trees.empty()) return plan;
  const int roots = static_cast<int>(trees.size());
  const int budget = UniformInt(rng_, 0, 3) == 0
                         ? roots
                         : UniformInt(rng_, roots, limits.max_nodes);
  plan.forest =
      PackForest(trees, SelectNodes(trees, budget, limits.max_nodes_per_tree))
          .forest;
  return plan;
}

void ChunkTraffic::Take(Request& request, const SequenceResult& result) {
  SequencePlan& sequence = request.sequence;
  sequence.committed = result.committed;
  if (request.left_of_prompt() > 0) return;
  sequence.max_new_tokens -= static_cast<int>(result.emitted.size());
  if (sequence.max_new_tokens <= 0 || result.emitted.empty() ||
      sequence.committed >= options_.limits.max_context) {
    request = NewRequest(sequence.slot.value());
    return;
  }
  request.tree = result.proposal.value_or(
      ProposalTree{{kNoParent}, {result.emitted.back().token}, {0}});
}

void ChunkTraffic::Apply(const StepPlan& plan, const StepResult& result) {
  const auto take = [this](const SequencePlan& of, const SequenceResult& got) {
    Take(requests_[of.slot.value()], got);
  };
  for (size_t i = 0; i < plan.prefills.size(); ++i) {
    take(plan.prefills[i].sequence, result.prefills[i]);
  }
  for (size_t i = 0; i < plan.sequences.size(); ++i) {
    take(plan.sequences[i], result.sequences[i]);
  }
}

absl::StatusOr<StepResult> StepApart(Engine& engine, const StepPlan& plan) {
  StepPlan chunks = plan;
  chunks.sequences.clear();
  chunks.forest = {};
  StepPlan forest = plan;
  forest.prefills.clear();
  StepResult result;
  if (!chunks.prefills.empty()) {
    BOLE_ASSIGN_OR_RETURN(result, engine.Step(chunks));
  }
  if (forest.sequences.empty()) return result;
  std::vector<SequenceResult> prefills = std::move(result.prefills);
  BOLE_ASSIGN_OR_RETURN(result, engine.Step(forest));
  result.prefills = std::move(prefills);
  return result;
}

}  // namespace bole::testing_support
