// Bytes that decode to a result are that result: encoded and decoded again it
// is the same in both forms, and its proposals are trees. Whatever it holds, it
// is checked against a plan without harm; a result that may be followed by
// another round is a plan for that.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "common/check.h"
#include "common/proposal_tree.h"
#include "common/step.h"
#include "proto/step_codec.h"
#include "proto/worker.pb.h"
#include "scheduler_service/replicas/validate_result.h"

namespace bole {
namespace {

constexpr StepLimits kLimits = {.max_requests = 4,
                                .max_nodes = 32,
                                .max_nodes_per_tree = 16,
                                .max_prefill_tokens = 64,
                                .max_draft = {.top_k = 2, .depth = 3},
                                .num_slots = 4,
                                .num_pages = 32,
                                .page_size = 16,
                                .max_context = 100,
                                .vocabulary = 50,
                                .max_lease_rounds = 4};

SequencePlan Sequence(int slot, int committed) {
  SequencePlan sequence{.slot = SlotId(slot),
                        .committed = committed,
                        .stop_tokens = {49},
                        .prompt_length = 1,
                        .max_new_tokens = 5};
  for (int i = 0; i < 7; ++i) sequence.pages.emplace_back(7 * slot + i);
  return sequence;
}

// Two chunks, of which one asks for log probabilities of its prompt and the
// other one ends its own, and a tree:
// corpus/step_result_fuzz/answer_*.
StepPlan MixedPlan() {
  StepPlan plan;
  plan.draft = DraftShape{.top_k = 2, .depth = 3};
  plan.prefills = {
      {.sequence = Sequence(0, 0), .tokens = {1, 2, 3}, .next_token = 4},
      {.sequence = Sequence(1, 0), .tokens = {1}}};
  plan.prefills[0].sequence.prompt_length = 4;
  plan.prefills[0].prompt_logprobs = 1;
  plan.sequences = {Sequence(2, 20)};
  plan.sequences[0].sampling.logprobs = true;
  plan.sequences[0].sampling.top_logprobs = 1;
  plan.forest = *BuildForest(std::vector<NodeList>{
      {.token = {10, 11, 12, 13}, .parent = {kNoParent, 0, 0, 1}}});
  return plan;
}

// A lease over two trees: corpus/step_result_fuzz/lease_*.
StepPlan LeasedPlan() {
  StepPlan plan;
  plan.draft = DraftShape{.top_k = 2, .depth = 3};
  plan.sequences = {Sequence(0, 20), Sequence(1, 30)};
  plan.forest = *BuildForest(
      std::vector<NodeList>{{.token = {10, 11}, .parent = {kNoParent, 0}},
                            {.token = {20}, .parent = {kNoParent}}});
  plan.lease = {.rounds = 3, .budget = 6, .max_nodes_per_tree = 3};
  return plan;
}

void CheckAgainst(const StepPlan& plan, const StepResult& result) {
  BOLE_CHECK(Validate(plan, kLimits).ok());
  AwaitedRound awaited{.plan = plan};
  StepResult round = result;
  // As the answer to each round, the later ones after the same tokens.
  while (ValidateResult(awaited, kLimits, round).ok() && !round.is_last) {
    AdvanceRound(kLimits, round, awaited);
    ++round.round;
    round.forest = awaited.plan.forest;
  }
}

}  // namespace
}  // namespace bole

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  bole::worker::v1::StepResult message;
  if (!message.ParseFromArray(data, static_cast<int>(size))) return 0;
  const absl::StatusOr<bole::StepResult> result = bole::DecodeResult(message);
  if (!result.ok()) return 0;
  for (const bole::SequenceResult& sequence : result->sequences) {
    if (!sequence.proposal) continue;
    BOLE_CHECK(bole::Validate(*sequence.proposal).ok());
  }
  bole::CheckAgainst(bole::MixedPlan(), *result);
  bole::CheckAgainst(bole::LeasedPlan(), *result);

  bole::worker::v1::StepResult encoded;
  bole::EncodeResult(*result, encoded);
  // Compared as messages: a log-probability may be NaN, which equals nothing.
  bole::worker::v1::StepResult again;
  bole::EncodeResult(*bole::DecodeResult(encoded), again);
  BOLE_CHECK(encoded.SerializeAsString() == again.SerializeAsString());
  bole::worker::v1::StepResult raw;
  bole::EncodeResult(*result, raw, bole::ResultForm::kRaw);
  bole::EncodeResult(*bole::DecodeResult(raw), again);
  BOLE_CHECK(encoded.SerializeAsString() == again.SerializeAsString());
  return 0;
}
