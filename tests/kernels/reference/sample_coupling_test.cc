// Speculation is invisible: what is drafted changes neither text nor log
// probabilities, whatever the filters and penalties.
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tests/kernels/reference/markov_decoder.h"
#include "tests/testing/random_tree.h"

namespace bole::testing {
namespace {

SamplingControl RandomControl(std::mt19937& rng) {
  SamplingControl control = PlainControl(rng());
  control.temperature = static_cast<float>(UniformInt(rng, 0, 6)) / 4;
  control.top_k = UniformInt(rng, 0, 4);
  control.top_p = static_cast<float>(UniformInt(rng, 2, 10)) / 10;
  control.min_p = static_cast<float>(UniformInt(rng, 0, 2)) / 10;
  if (UniformInt(rng, 0, 2) > 0) {
    control.presence_penalty = static_cast<float>(UniformInt(rng, -2, 4)) / 2;
    control.frequency_penalty = static_cast<float>(UniformInt(rng, -1, 4)) / 8;
    control.repetition_penalty = static_cast<float>(UniformInt(rng, 4, 8)) / 4;
  }
  return control;
}

int TotalAccepted(const std::vector<DecodedText>& texts) {
  int accepted = 0;
  for (const DecodedText& text : texts) accepted += text.accepted;
  return accepted;
}

TEST(SampleCouplingTest, ChainsAndTreesGiveTheTextOfPlainDecoding) {
  const MarkovTarget target(/*vocabulary=*/7, /*seed=*/1);
  std::mt19937 rng(2);
  std::vector<SamplingControl> controls(500);
  for (SamplingControl& control : controls) control = RandomControl(rng);

  const auto decode = [&](Drafts drafts) {
    return Decode(target, drafts, /*first_token=*/3, /*num_tokens=*/24,
                  controls);
  };
  const std::vector<DecodedText> plain = decode(Drafts::kNone);
  const std::vector<DecodedText> chain = decode(Drafts::kChain);
  const std::vector<DecodedText> tree = decode(Drafts::kTree);

  for (size_t b = 0; b < controls.size(); ++b) {
    SCOPED_TRACE(b);
    EXPECT_EQ(plain[b].tokens.size(), 24u);
    EXPECT_EQ(chain[b].tokens, plain[b].tokens);
    EXPECT_EQ(tree[b].tokens, plain[b].tokens);
    EXPECT_EQ(chain[b].logprobs, plain[b].logprobs);
    EXPECT_EQ(tree[b].logprobs, plain[b].logprobs);
  }
  // The comparison means something: drafts were accepted, and the tree's more.
  EXPECT_EQ(TotalAccepted(plain), 0);
  EXPECT_GT(TotalAccepted(chain), 2000);
  EXPECT_GT(TotalAccepted(tree), TotalAccepted(chain) + 1000);
}

// A greedy text that would go in circles is pushed out of them, also by tokens
// that were accepted in the same walk.
TEST(SampleCouplingTest, PenaltiesSeeTheTokensOfTheirOwnWalk) {
  const MarkovTarget target(/*vocabulary=*/7, /*seed=*/1);
  SamplingControl control = PlainControl(0);
  control.temperature = 0;
  control.frequency_penalty = 2;
  const std::vector<SamplingControl> with = {control};
  control.frequency_penalty = 0;
  const std::vector<SamplingControl> without = {control};

  const auto decode = [&](const std::vector<SamplingControl>& controls) {
    return Decode(target, Drafts::kTree, 3, /*num_tokens=*/3, controls)[0];
  };
  const DecodedText penalized = decode(with);

  EXPECT_GT(penalized.accepted, 0);
  EXPECT_EQ(penalized.tokens,
            Decode(target, Drafts::kNone, 3, 3, with)[0].tokens);
  EXPECT_NE(Decode(target, Drafts::kTree, 3, 24, with)[0].tokens,
            Decode(target, Drafts::kTree, 3, 24, without)[0].tokens);
}

}  // namespace
}  // namespace bole::testing
