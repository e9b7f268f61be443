#include "worker_service/ranks/round_digest.h"

#include <cstdint>
#include <functional>
#include <set>
#include <utility>
#include <vector>

#include "common/packed_forest.h"
#include "common/proposal_tree.h"
#include "common/step.h"
#include "gtest/gtest.h"

namespace bole {
namespace {

// A result with all that one can say.
StepResult Whole() {
  SequenceResult sequence;
  sequence.committed = 7;
  sequence.emitted = {
      {.token = 3, .logprob = -0.5f, .top = {{.token = 3, .logprob = -0.5f}}}};
  sequence.accepted_drafts = 1;
  sequence.promised_drafts = 1.5f;
  sequence.proposal = ProposalTree{
      .parent = {kNoParent, 0}, .token = {3, 4}, .log_rho = {0, -0.25f}};
  sequence.bad_logits_position = 9;
  sequence.prompt_logprobs = {{.token = 2, .logprob = -1, .top = {}}};
  StepResult result;
  result.prefills = {sequence};
  result.sequences = {sequence, sequence};
  result.round = 2;
  result.is_last = false;
  result.forest = *BuildForest(
      std::vector<NodeList>{{.token = {3, 4}, .parent = {kNoParent, 0}}});
  return result;
}

TEST(RoundDigestTest, EqualResultsHaveOneDigest) {
  EXPECT_EQ(DigestOf(Whole()), DigestOf(Whole()));
}

TEST(RoundDigestTest, AnyNumberThatDiffersIsSeen) {
  const std::vector<std::function<void(StepResult&)>> changes = {
      [](StepResult& r) { r.round ^= 1; },
      [](StepResult& r) { r.is_last = true; },
      [](StepResult& r) { r.forest.reset(); },
      [](StepResult& r) { r.forest->token[1] ^= 1; },
      [](StepResult& r) { r.forest->parent[1] = kNoParent; },
      [](StepResult& r) { r.prefills.clear(); },
      [](StepResult& r) { std::swap(r.prefills, r.sequences); },
      [](StepResult& r) { r.prefills[0].committed ^= 1; },
      [](StepResult& r) { r.sequences[0].committed ^= 1; },
      [](StepResult& r) { r.sequences[1].committed ^= 1; },
      [](StepResult& r) { r.sequences[1].emitted[0].token ^= 1; },
      [](StepResult& r) { r.sequences[1].emitted[0].logprob = -0.50000006f; },
      [](StepResult& r) { r.sequences[1].emitted[0].top[0].token ^= 1; },
      [](StepResult& r) { r.sequences[1].emitted[0].top[0].logprob = 0; },
      [](StepResult& r) { r.sequences[1].emitted.clear(); },
      [](StepResult& r) { r.sequences[1].accepted_drafts ^= 1; },
      [](StepResult& r) { r.sequences[1].promised_drafts = 1.25f; },
      [](StepResult& r) { r.sequences[1].promised_drafts.reset(); },
      [](StepResult& r) { r.sequences[1].proposal->token[1] ^= 1; },
      [](StepResult& r) { r.sequences[1].proposal->parent[1] = kNoParent; },
      [](StepResult& r) { r.sequences[1].proposal->log_rho[1] = -0.5f; },
      [](StepResult& r) { r.sequences[1].proposal.reset(); },
      [](StepResult& r) { *r.sequences[1].bad_logits_position ^= 1; },
      [](StepResult& r) { r.sequences[1].bad_logits_position.reset(); },
      [](StepResult& r) { r.sequences[1].prompt_logprobs[0].token ^= 1; },
      [](StepResult& r) { r.sequences[1].prompt_logprobs.clear(); },
  };
  std::set<uint64_t> digests = {DigestOf(Whole())};
  for (size_t i = 0; i < changes.size(); ++i) {
    StepResult changed = Whole();
    changes[i](changed);
    EXPECT_TRUE(digests.insert(DigestOf(changed)).second) << i;
  }
}

TEST(RoundDigestTest, EveryBitOfATokenCounts) {
  std::set<uint64_t> digests = {DigestOf(Whole())};
  for (int bit = 0; bit < 32; ++bit) {
    StepResult changed = Whole();
    changed.prefills[0].emitted[0].token ^= int32_t(uint32_t{1} << bit);
    EXPECT_TRUE(digests.insert(DigestOf(changed)).second) << bit;
  }
}

}  // namespace
}  // namespace bole
