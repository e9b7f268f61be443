// What a request may say of how it is speculated for.
#include "gtest/gtest.h"
#include "tests/e2e/call.h"
#include "tests/e2e/system.h"

namespace bole::e2e {
namespace {

constexpr char kPrompt[] = "def fibonacci(n):\n";

TEST(E2eSpeculationTest, AnOverrideChangesTheRoundsAndNotTheText) {
  System system;
  const Generation own_choice =
      Generate(system.stub(), GreedyRequest(kPrompt, 64));
  ASSERT_TRUE(own_choice.status.ok()) << own_choice.status.error_message();
  v1::SpeculationOverride off;
  off.set_mode(v1::SPECULATION_MODE_OFF);
  v1::SpeculationOverride chain;
  chain.set_mode(v1::SPECULATION_MODE_CHAIN);
  v1::SpeculationOverride two_nodes;
  two_nodes.set_nodes(2);
  v1::SpeculationOverride shallow;
  shallow.set_mode(v1::SPECULATION_MODE_TREE);
  shallow.set_depth(1);
  const auto run = [&](const v1::SpeculationOverride& bounds) {
    v1::GenerateRequest request = GreedyRequest(kPrompt, 64);
    *request.mutable_speculation() = bounds;
    const Generation got = Generate(system.stub(), request);
    EXPECT_TRUE(got.status.ok()) << got.status.error_message();
    EXPECT_EQ(got.ids(), own_choice.ids()) << bounds.ShortDebugString();
    return got.complete->speculation();
  };
  const v1::Speculation own = own_choice.complete->speculation();
  ASSERT_GT(own.accepted_drafts(), 0u);

  // The first token comes with the prompt, every other one by its own round.
  EXPECT_EQ(run(off).rounds(), 63u);
  EXPECT_EQ(run(off).accepted_drafts(), 0u);
  for (const v1::SpeculationOverride& one : {two_nodes, shallow}) {
    const v1::Speculation got = run(one);
    EXPECT_LE(got.accepted_drafts(), got.rounds());
    EXPECT_GT(got.accepted_drafts(), 0u);
    EXPECT_GE(got.rounds(), own.rounds());
  }
  EXPECT_GE(run(chain).rounds(), own.rounds());
  system.ExpectIdle();
}

}  // namespace
}  // namespace bole::e2e
