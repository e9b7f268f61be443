#include "proto/step_codec.h"

#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/ids.h"
#include "common/step.h"
#include "gtest/gtest.h"
#include "proto/worker.pb.h"
#include "tests/proto/codec_cases.h"
#include "tests/testing/random_step.h"
#include "tests/testing/same_plan.h"

namespace bole {
namespace {

using ::bole::testing::BadCase;
using ::bole::testing::ExpectRefused;
using ::bole::testing::RandomPlan;
using ::bole::testing::RandomPlanLimits;
using ::bole::testing::Reparse;
using ::bole::testing::Same;
namespace wire = worker::v1;

TEST(StepCodecTest, PlansComeBackAsTheyWere) {
  std::mt19937 rng(1);
  wire::StepPlan message;  // One for all: nothing of an old plan may remain.
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE(round);
    const StepPlan plan = RandomPlan(rng, RandomPlanLimits());
    ASSERT_EQ(Validate(plan, RandomPlanLimits()), absl::OkStatus());

    EncodePlan(plan, message);
    const absl::StatusOr<StepPlan> decoded = DecodePlan(Reparse(message));

    ASSERT_EQ(decoded.status(), absl::OkStatus());
    EXPECT_TRUE(Same(*decoded, plan));
  }
}

TEST(StepCodecTest, AnEmptyPlanComesBackEmpty) {
  wire::StepPlan message;
  EncodePlan(StepPlan{}, message);

  const absl::StatusOr<StepPlan> decoded = DecodePlan(message);

  ASSERT_EQ(decoded.status(), absl::OkStatus());
  EXPECT_TRUE(Same(*decoded, StepPlan{}));
}

TEST(StepCodecTest, LeasesComeBackAsTheyWere) {
  StepPlan plan;
  plan.lease = {.rounds = 3, .budget = 70, .max_nodes_per_tree = 40};
  wire::StepPlan message;
  EncodePlan(plan, message);

  const absl::StatusOr<StepPlan> decoded = DecodePlan(Reparse(message));

  ASSERT_EQ(decoded.status(), absl::OkStatus());
  EXPECT_EQ(decoded->lease, plan.lease);
}

TEST(StepCodecTest, BoundsOfALeasesTreesComeBackAsTheyWere) {
  StepPlan plan;
  plan.lease = {.rounds = 2, .budget = 9, .max_nodes_per_tree = 6};
  plan.lease->bounds = {{.floor = 1, .cap = 6}, {.floor = 3, .cap = 3}};
  wire::StepPlan message;
  EncodePlan(plan, message);

  const absl::StatusOr<StepPlan> decoded = DecodePlan(Reparse(message));

  ASSERT_EQ(decoded.status(), absl::OkStatus());
  EXPECT_EQ(decoded->lease, plan.lease);

  message.mutable_lease()->add_cap(1);
  EXPECT_TRUE(absl::IsInvalidArgument(DecodePlan(message).status()));
}

TEST(StepCodecTest, WhatTheDrafterHasNotSeenComesBackAsItWas) {
  StepPlan plan;
  plan.defers_draft = true;
  plan.sequences.resize(1);
  plan.sequences[0].draft_tail = {7, 0, 9};
  wire::StepPlan message;
  EncodePlan(plan, message);

  const absl::StatusOr<StepPlan> decoded = DecodePlan(Reparse(message));

  ASSERT_EQ(decoded.status(), absl::OkStatus());
  EXPECT_TRUE(decoded->defers_draft);
  EXPECT_EQ(decoded->sequences[0].draft_tail, plan.sequences[0].draft_tail);
}

TEST(StepCodecTest, CopiesOfUnlikeLengthAreNoPlan) {
  StepPlan plan;
  plan.copies = {.slots = {{.from = SlotId(1), .to = SlotId(2)}},
                 .pages = {{.from = PageId(3), .to = PageId(4)}}};
  for (const auto& break_it :
       std::vector<std::function<void(wire::MemoryCopies&)>>{
           [](wire::MemoryCopies& copies) { copies.add_from_slot(1); },
           [](wire::MemoryCopies& copies) { copies.add_to_slot(1); },
           [](wire::MemoryCopies& copies) {
             copies.add_output_to_prompt(true);
           },
           [](wire::MemoryCopies& copies) { copies.add_to_page(1); }}) {
    wire::StepPlan message;
    EncodePlan(plan, message);
    break_it(*message.mutable_copies());
    EXPECT_TRUE(absl::IsInvalidArgument(DecodePlan(Reparse(message)).status()));
  }
}

TEST(StepCodecTest, LimitsComeBackAsTheyWere) {
  const StepLimits limits = RandomPlanLimits();
  wire::StepLimits message;
  EncodeLimits(limits, message);

  const absl::StatusOr<StepLimits> decoded = DecodeLimits(Reparse(message));

  ASSERT_EQ(decoded.status(), absl::OkStatus());
  EXPECT_EQ(decoded->max_requests, limits.max_requests);
  EXPECT_EQ(decoded->max_nodes, limits.max_nodes);
  EXPECT_EQ(decoded->max_nodes_per_tree, limits.max_nodes_per_tree);
  EXPECT_EQ(decoded->max_prefill_tokens, limits.max_prefill_tokens);
  EXPECT_EQ(decoded->max_draft, limits.max_draft);
  EXPECT_EQ(decoded->num_slots, limits.num_slots);
  EXPECT_EQ(decoded->num_pages, limits.num_pages);
  EXPECT_EQ(decoded->num_host_slots, limits.num_host_slots);
  EXPECT_EQ(decoded->num_host_pages, limits.num_host_pages);
  EXPECT_EQ(decoded->page_size, limits.page_size);
  EXPECT_EQ(decoded->max_context, limits.max_context);
  EXPECT_EQ(decoded->vocabulary, limits.vocabulary);
  EXPECT_EQ(decoded->max_lease_rounds, limits.max_lease_rounds);
}

// Two sequences with trees of two nodes, and one prefill.
wire::StepPlan GoodPlan() {
  wire::StepPlan plan;
  for (int i = 0; i < 2; ++i) plan.add_sequences()->mutable_sampling();
  plan.add_prefills()->mutable_sequence()->mutable_sampling();
  for (const int first : {0, 2, 4}) {
    plan.mutable_forest()->add_first_node(first);
  }
  for (const int parent : {-1, 0, -1, 0}) {
    plan.mutable_forest()->add_parent(parent);
    plan.mutable_forest()->add_token(7);
  }
  return plan;
}

TEST(StepCodecTest, RefusesWhatIsNoPlan) {
  using Plan = wire::StepPlan;
  const std::vector<BadCase<Plan>> cases = {
      {"a sequence without sampling",
       [](Plan& p) { p.mutable_sequences(1)->clear_sampling(); },
       "sequence 1: has no sampling"},
      {"a chunk without sequence",
       [](Plan& p) { p.mutable_prefills(0)->clear_sequence(); },
       "prefill 0: has no sequence"},
      {"a bias without token",
       [](Plan& p) { p.mutable_sequences(0)->mutable_sampling()->add_bias(1); },
       "bias_token has 0 values, bias has 1"},
      {"fewer tokens than parents",
       [](Plan& p) { p.mutable_forest()->mutable_token()->RemoveLast(); },
       "parent has 4 values, token has 3"},
      {"nodes of no request",
       [](Plan& p) { p.mutable_forest()->clear_first_node(); },
       "first_node ends at 0 with 4 nodes"},
      {"first nodes from one",
       [](Plan& p) { p.mutable_forest()->set_first_node(0, 1); },
       "first_node[0] is 1"},
      {"first nodes that descend",
       [](Plan& p) { p.mutable_forest()->add_first_node(3); },
       "first_node[3] is 3 after 4"},
      {"a negative first node",
       [](Plan& p) { p.mutable_forest()->set_first_node(1, -1); },
       "first_node[1] is -1"},
      {"a first node beyond the nodes",
       [](Plan& p) { p.mutable_forest()->set_first_node(2, 1 << 30); },
       "first_node[2] is 1073741824"},
      {"a last node that is not there",
       [](Plan& p) { p.mutable_forest()->set_first_node(2, 3); },
       "first_node ends at 3 with 4 nodes"},
      {"a parent that comes later",
       [](Plan& p) { p.mutable_forest()->set_parent(2, 1); },
       "request 1: node 0 has parent 1"},
      {"a parent below none",
       [](Plan& p) { p.mutable_forest()->set_parent(1, -2); },
       "request 0: node 1 has parent -2"},
  };

  ExpectRefused(cases, GoodPlan(), DecodePlan);
}

TEST(StepCodecTest, RefusesMoreThanAnyWorkerTakes) {
  using Plan = wire::StepPlan;
  const std::vector<BadCase<Plan>> cases = {
      {"sequences",
       [](Plan& p) {
         while (p.sequences_size() <= kMaxCodedSequences) p.add_sequences();
       },
       "sequence: 4097 of them"},
      {"chunks",
       [](Plan& p) {
         while (p.prefills_size() <= kMaxCodedSequences) p.add_prefills();
       },
       "prefill: 4097 of them"},
      {"trees",
       [](Plan& p) {
         while (p.forest().first_node_size() <= kMaxCodedSequences + 1) {
           p.mutable_forest()->add_first_node(4);
         }
       },
       "4098 first nodes; the limit is 4097"},
      {"nodes of one tree",
       [](Plan& p) {
         wire::Forest& forest = *p.mutable_forest();
         while (forest.parent_size() < 2 + kMaxCodedTreeNodes + 1) {
           forest.add_parent(0);
           forest.add_token(0);
         }
         forest.set_first_node(2, forest.parent_size());
       },
       "request 1: 129 nodes; the limit is 128"},
  };

  ExpectRefused(cases, GoodPlan(), DecodePlan);
}

TEST(StepCodecTest, RefusesLimitsOfNoWorker) {
  using Limits = wire::StepLimits;
  wire::StepLimits good;
  EncodeLimits(RandomPlanLimits(), good);
  const std::vector<BadCase<Limits>> cases = {
      {"no slots", [](Limits& l) { l.set_num_slots(0); },
       "num_slots is 0, not in [1, "},
      {"negative pages", [](Limits& l) { l.set_num_pages(-1); },
       "num_pages is -1"},
      {"no draft", [](Limits& l) { l.clear_max_draft(); },
       "max_draft.top_k is 0"},
      {"a wide draft", [](Limits& l) { l.mutable_max_draft()->set_top_k(17); },
       "max_draft.top_k is 17, not in [1, 16]"},
      {"a context that overflows",
       [](Limits& l) { l.set_max_context(std::numeric_limits<int>::max()); },
       "max_context is 2147483647"},
      {"large trees", [](Limits& l) { l.set_max_nodes_per_tree(129); },
       "max_nodes_per_tree is 129"},
      {"pages that a scheduler could not list",
       [](Limits& l) { l.set_num_pages(1 << 25); },
       "num_pages is 33554432, not in [1, 16777216]"},
      {"slots that a scheduler could not list",
       [](Limits& l) { l.set_num_slots(1 << 21); },
       "num_slots is 2097152, not in [1, 1048576]"},
      {"negative places on the host",
       [](Limits& l) { l.set_num_host_slots(-1); },
       "num_host_slots is -1, not in [0, 1048576]"},
      {"places on the host that a scheduler could not list",
       [](Limits& l) { l.set_num_host_pages(1 << 25); },
       "num_host_pages is 33554432, not in [0, 16777216]"},
      {"fewer nodes than requests",
       [](Limits& l) {
         l.set_max_requests(9);
         l.set_max_nodes(8);
       },
       "max_nodes is 8, not at least 9, a root for each of max_requests"},
      {"a prefill that never reaches a place to cut",
       [](Limits& l) { l.set_max_prefill_tokens(63); },
       "max_prefill_tokens is 63, not at least 64"},
      {"no place for an answer", [](Limits& l) { l.set_max_context(1); },
       "max_context is 1, not at least 2"},
      {"pages that hold no text",
       [](Limits& l) {
         l.set_num_pages(1);
         l.set_page_size(14);
       },
       "num_pages * page_size is 14, not at least 15"},
  };

  ExpectRefused(cases, good, DecodeLimits);
}

}  // namespace
}  // namespace bole
