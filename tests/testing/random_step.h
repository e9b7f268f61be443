// Seeded random plans and results.
#ifndef BOLE_TESTS_TESTING_RANDOM_STEP_H_
#define BOLE_TESTS_TESTING_RANDOM_STEP_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "common/packed_forest.h"
#include "common/step.h"
#include "tests/testing/random_tree.h"

namespace bole::testing {

// Limits that RandomPlan() stays within.
inline StepLimits RandomPlanLimits() {
  return {.max_requests = 8,
          .max_nodes = 512,
          .max_nodes_per_tree = 64,
          .max_prefill_tokens = 256,
          .max_draft = {.top_k = 4, .depth = 4},
          .num_slots = 16,
          .num_pages = 512,
          .num_host_slots = 7,
          .num_host_pages = 64,
          .page_size = 16,
          .max_context = 512,
          .vocabulary = 1000};
}

inline std::vector<int32_t> RandomTokens(std::mt19937& rng, int count,
                                         int vocabulary) {
  std::vector<int32_t> tokens(count);
  for (int32_t& token : tokens) token = UniformInt(rng, 0, vocabulary - 1);
  return tokens;
}

inline SamplingParams RandomSampling(std::mt19937& rng, int vocabulary) {
  const auto uniform = [&rng](float low, float high) {
    return std::uniform_real_distribution<float>(low, high)(rng);
  };
  SamplingParams params;
  params.temperature = UniformInt(rng, 0, 1) * uniform(0.1f, 2);
  params.top_k = UniformInt(rng, 0, 50);
  params.top_p = uniform(0.1f, 1);
  params.min_p = uniform(0, 0.5f);
  params.presence_penalty = uniform(-2, 2);
  params.frequency_penalty = uniform(-2, 2);
  params.repetition_penalty = uniform(0.5f, 2);
  const int biases = UniformInt(rng, 0, 3);
  for (int i = 0; i < biases; ++i) {
    // At most one token from each quarter, so that none occurs twice.
    const int quarter = vocabulary / 4;
    params.logit_bias.emplace_back(
        i * quarter + UniformInt(rng, 0, quarter - 1), uniform(-50, 50));
  }
  params.seed = std::uniform_int_distribution<uint64_t>()(rng);
  params.min_tokens = UniformInt(rng, 0, 1) * UniformInt(rng, 1, 1000);
  params.logprobs = UniformInt(rng, 0, 1) == 1;
  if (params.logprobs) params.top_logprobs = UniformInt(rng, 0, 5);
  return params;
}

// Sequence `number` of a plan, which has a slot and pages of its own. `rows` is
// the number of tokens or nodes that run for it.
inline SequencePlan RandomSequence(std::mt19937& rng, int number, int rows,
                                   const StepLimits& limits) {
  SequencePlan sequence{.slot = SlotId(number)};
  sequence.committed = UniformInt(rng, 1, limits.max_context - rows);
  const int pages =
      std::min(limits.MaxPages(), limits.num_pages / limits.num_slots);
  for (int i = 0; i < pages; ++i) {
    sequence.pages.emplace_back(number * pages + i);
  }
  // The sequence stays within its pages, whatever is drafted.
  const int kv_rows = pages * limits.page_size;
  const int needed = limits.KvRows(0, rows, limits.max_draft);
  sequence.committed = std::min(sequence.committed, kv_rows - needed);
  sequence.sampling = RandomSampling(rng, limits.vocabulary);
  sequence.stop_tokens =
      RandomTokens(rng, UniformInt(rng, 0, 3), limits.vocabulary);
  sequence.prompt_length = UniformInt(rng, 1, sequence.committed);
  sequence.max_new_tokens = UniformInt(rng, 1, 100);
  return sequence;
}

// Up to three copies of slots, to the last of `num_slots`, and up to three of
// pages, to the first ones.
inline MemoryCopies RandomCopies(std::mt19937& rng, int num_slots,
                                 bool with_outputs = true) {
  MemoryCopies copies;
  for (int i = UniformInt(rng, 0, 3); i > 0; --i) {
    copies.slots.push_back(
        {.from = SlotId(i),
         .to = SlotId(num_slots - i),
         .output_to_prompt = with_outputs && UniformInt(rng, 0, 1) == 0});
  }
  for (int i = UniformInt(rng, 0, 3); i > 0; --i) {
    copies.pages.push_back({.from = PageId(i - 1), .to = PageId(i)});
  }
  return copies;
}

// The lease has one round, because more rounds would need more pages.
inline Lease RandomLease(std::mt19937& rng, int sequences,
                         const StepLimits& limits) {
  Lease lease = {
      .rounds = 1,
      .budget = UniformInt(rng, sequences, limits.max_nodes),
      .max_nodes_per_tree = UniformInt(rng, 1, limits.max_nodes_per_tree)};
  if (lease.budget >= 2 * sequences && lease.max_nodes_per_tree >= 2) {
    lease.bounds.assign(sequences, {.floor = UniformInt(rng, 1, 2),
                                    .cap = lease.max_nodes_per_tree});
  }
  return lease;
}

// A plan that Validate() accepts: up to three chunks and up to four trees.
inline StepPlan RandomPlan(std::mt19937& rng, const StepLimits& limits) {
  StepPlan plan;
  if (UniformInt(rng, 0, 1) == 0) {
    plan.copies = RandomCopies(rng, limits.num_slots);
  } else if (limits.num_host_slots > 3 && limits.num_host_pages > 3) {
    plan.to_host =
        RandomCopies(rng, limits.num_host_slots, /*with_outputs=*/false);
    plan.from_host = RandomCopies(rng, limits.num_slots);
  }
  int number = 0;
  const int prefills = UniformInt(rng, 0, 3);
  for (int i = 0; i < prefills; ++i) {
    const int rows = UniformInt(rng, 1, 50);
    PrefillPlan prefill{.sequence = RandomSequence(rng, number++, rows, limits),
                        .tokens = RandomTokens(rng, rows, limits.vocabulary)};
    if (UniformInt(rng, 0, 1) == 0) {
      prefill.next_token = UniformInt(rng, 0, limits.vocabulary - 1);
    } else {
      prefill.sequence.prompt_length = prefill.sequence.committed + rows;
    }
    if (UniformInt(rng, 0, 1) == 0) {
      prefill.prompt_logprobs = UniformInt(rng, 0, kMaxRequestedLogprobs);
    }
    plan.prefills.push_back(std::move(prefill));
  }
  const int skip = UniformInt(rng, 0, 2 * prefills);
  for (int i = 0; i < prefills; ++i) {
    plan.prefills[i].sequence.skips_drafter = i + skip >= 2 * prefills;
  }
  const int sequences = UniformInt(rng, 0, 4);
  std::vector<NodeList> trees;
  for (int b = 0; b < sequences; ++b) {
    const int nodes = UniformInt(rng, 1, limits.max_nodes_per_tree);
    const ProposalTree tree = RandomTree(rng, nodes);
    trees.push_back({.token = tree.token, .parent = tree.parent});
    plan.sequences.push_back(RandomSequence(rng, number++, nodes, limits));
    SequencePlan& sequence = plan.sequences.back();
    const int most_tail = std::min(kMaxDraftTail, sequence.committed);
    sequence.draft_tail =
        RandomTokens(rng, UniformInt(rng, 0, 1) * UniformInt(rng, 0, most_tail),
                     limits.vocabulary);
    sequence.skips_drafter = b > 0 && (plan.sequences[b - 1].skips_drafter ||
                                       UniformInt(rng, 0, 4) == 0);
    if (sequence.skips_drafter) sequence.draft_tail.clear();
  }
  plan.forest = *BuildForest(trees);
  if (UniformInt(rng, 0, 1) == 0) {
    plan.draft = {.top_k = UniformInt(rng, 1, limits.max_draft.top_k),
                  .depth = UniformInt(rng, 1, limits.max_draft.depth)};
  } else {
    plan.defers_draft = UniformInt(rng, 0, 1) == 0;
  }
  const bool can_lend =
      sequences > 0 && !(plan.draft && plan.sequences.back().skips_drafter);
  if (prefills == 0 && can_lend) {
    plan.lease = RandomLease(rng, sequences, limits);
  }
  return plan;
}

inline SequenceResult RandomSequenceResult(std::mt19937& rng) {
  std::uniform_real_distribution<float> logprob(-20, 0);
  SequenceResult result;
  result.committed = UniformInt(rng, 0, 1 << 20);
  for (auto* tokens : {&result.emitted, &result.prompt_logprobs}) {
    tokens->resize(UniformInt(rng, 0, 5));
    for (EmittedToken& token : *tokens) {
      token.token = UniformInt(rng, 0, 1 << 18);
      token.logprob = logprob(rng);
      token.top.resize(UniformInt(rng, 0, 3));
      for (TokenLogprob& top : token.top) {
        top = {UniformInt(rng, 0, 1 << 18), logprob(rng)};
      }
    }
  }
  result.accepted_drafts =
      UniformInt(rng, 0, static_cast<int>(result.emitted.size()));
  if (UniformInt(rng, 0, 1) == 0) {
    result.promised_drafts =
        static_cast<float>(UniformInt(rng, 0, 100)) / 16.0f;
  }
  if (UniformInt(rng, 0, 3) > 0) {
    result.proposal = RandomTree(rng, UniformInt(rng, 1, 116));
  }
  if (UniformInt(rng, 0, 3) == 0) {
    result.bad_logits_position = UniformInt(rng, 0, 1 << 20);
  }
  return result;
}

inline StepResult RandomResult(std::mt19937& rng) {
  StepResult result;
  result.prefills.resize(UniformInt(rng, 0, 3));
  result.sequences.resize(UniformInt(rng, 0, 4));
  for (SequenceResult& one : result.prefills) one = RandomSequenceResult(rng);
  for (SequenceResult& one : result.sequences) one = RandomSequenceResult(rng);
  result.round = UniformInt(rng, 0, kMaxLeaseRounds - 1);
  result.is_last = UniformInt(rng, 0, 1) == 0;
  if (result.round > 0) {
    const ProposalTree tree = RandomTree(rng, UniformInt(rng, 1, 100));
    const NodeList nodes{.token = tree.token, .parent = tree.parent};
    result.forest = *BuildForest(std::vector<NodeList>{{}, nodes, nodes});
  }
  return result;
}

}  // namespace bole::testing

#endif  // BOLE_TESTS_TESTING_RANDOM_STEP_H_
