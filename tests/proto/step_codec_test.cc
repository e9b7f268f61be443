#include "proto/step_codec.h"

#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/step.h"
#include "gtest/gtest.h"
#include "proto/worker.pb.h"
#include "tests/testing/random_step.h"

namespace bole {
namespace {

using ::bole::testing::RandomPlan;
using ::bole::testing::RandomPlanLimits;
using ::bole::testing::RandomResult;
using ::bole::testing::Same;
namespace wire = worker::v1;

// Through bytes, as on the wire.
template <typename Message>
Message Reparse(const Message& message) {
  Message parsed;
  EXPECT_TRUE(parsed.ParseFromString(message.SerializeAsString()));
  return parsed;
}

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

TEST(StepCodecTest, ResultsComeBackAsTheyWere) {
  std::mt19937 rng(2);
  wire::StepResult message;
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE(round);
    const StepResult result = RandomResult(rng);

    for (const ResultForm form : {ResultForm::kArrays, ResultForm::kRaw}) {
      EncodeResult(result, message, form);
      const absl::StatusOr<StepResult> decoded = DecodeResult(Reparse(message));

      ASSERT_EQ(decoded.status(), absl::OkStatus());
      EXPECT_EQ(*decoded, result);
    }
  }
}

// A sequence with a token and a proposal of so many children of the root.
StepResult ResultWith(int num_children) {
  StepResult result;
  result.sequences.resize(1);
  result.sequences[0].emitted = {{.token = 7, .logprob = -1, .top = {}}};
  ProposalTree tree{{kNoParent}, {7}, {0}};
  tree.parent.resize(1 + num_children, 0);
  tree.token.resize(1 + num_children, 0x01020304);
  tree.log_rho.resize(1 + num_children, -2);
  result.sequences[0].proposal = std::move(tree);
  return result;
}

// The bytes that worker.proto promises.
TEST(StepCodecTest, RawResultsAreLittleEndianArrays) {
  wire::StepResult message;
  EncodeResult(ResultWith(1), message, ResultForm::kRaw);

  const wire::SequenceResult& sequence = message.sequences(0);
  EXPECT_EQ(sequence.raw_emitted(), std::string("\7\0\0\0\0\0\x80\xbf", 8));
  EXPECT_EQ(sequence.raw_proposal(), std::string("\xff\xff\0\0"
                                                 "\7\0\0\0\4\3\2\1"
                                                 "\0\0\0\0\0\0\0\xc0",
                                                 20));
  EXPECT_EQ(sequence.emitted_size(), 0);
  EXPECT_FALSE(sequence.has_proposal());
}

TEST(StepCodecTest, WhatHasNoRawFormTravelsAsArrays) {
  StepResult large = ResultWith(1 << 15);
  large.sequences[0].emitted[0].top = {{.token = 1, .logprob = -3}};
  wire::StepResult message;
  EncodeResult(large, message, ResultForm::kRaw);

  EXPECT_FALSE(message.sequences(0).has_raw_proposal());
  EXPECT_EQ(message.sequences(0).raw_emitted(), "");
  EXPECT_EQ(*DecodeResult(Reparse(message)), large);

  StepResult largest = ResultWith((1 << 15) - 2);
  EncodeResult(largest, message, ResultForm::kRaw);
  EXPECT_TRUE(message.sequences(0).has_raw_proposal());
  EXPECT_EQ(*DecodeResult(Reparse(message)), largest);
}

// Nobody has to know the raw form but those who are told of it.
TEST(StepCodecTest, RecordingsHaveNoRawResults) {
  wire::StepResult message;
  EncodeResult(ResultWith(1), message);

  EXPECT_FALSE(message.sequences(0).has_raw_proposal());
  EXPECT_EQ(message.sequences(0).raw_emitted(), "");
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

TEST(StepCodecTest, ARoundThatNoLeaseHasIsRefused) {
  wire::StepResult message;
  for (const int round : {-1, kMaxLeaseRounds}) {
    message.set_round(round);
    EXPECT_TRUE(absl::IsInvalidArgument(DecodeResult(message).status()));
  }
}

TEST(StepCodecTest, ImpossibleCandidatesKeepTheirInfinity) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  StepResult result;
  result.sequences.resize(1);
  result.sequences[0].proposal =
      ProposalTree{{kNoParent, 0}, {1, 2}, {0, -kInfinity}};
  wire::StepResult message;

  EncodeResult(result, message);

  EXPECT_EQ(*DecodeResult(Reparse(message)), result);
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

wire::StepResult GoodResult() {
  wire::StepResult result;
  wire::SequenceResult& sequence = *result.add_sequences();
  sequence.set_committed(5);
  wire::EmittedToken& token = *sequence.add_emitted();
  token.add_top_token(3);
  token.add_top_logprob(-1);
  wire::ProposalTree& tree = *sequence.mutable_proposal();
  for (const int parent : {-1, 0}) {
    tree.add_parent(parent);
    tree.add_token(4);
    tree.add_log_rho(static_cast<float>(-1 - parent));
  }
  return result;
}

template <typename Message>
struct BadCase {
  const char* name;
  std::function<void(Message&)> spoil;
  const char* message;  // A part of the error's.
};

template <typename Message, typename Decode>
void ExpectRefused(const std::vector<BadCase<Message>>& cases,
                   const Message& good, Decode decode) {
  ASSERT_EQ(decode(good).status(), absl::OkStatus());
  for (const BadCase<Message>& bad : cases) {
    SCOPED_TRACE(bad.name);
    Message message = good;
    bad.spoil(message);

    const absl::Status status = decode(message).status();

    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(std::string(status.message()).find(bad.message),
              std::string::npos)
        << status;
  }
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

TEST(StepCodecTest, RefusesWhatIsNoResult) {
  using Result = wire::StepResult;
  const auto sequence = [](Result& r) { return r.mutable_sequences(0); };
  const auto token = [](Result& r) {
    return r.mutable_sequences(0)->mutable_emitted(0);
  };
  const auto tree = [](Result& r) {
    return r.mutable_sequences(0)->mutable_proposal();
  };
  const std::vector<BadCase<Result>> cases = {
      {"a negative length", [=](Result& r) { sequence(r)->set_committed(-1); },
       "committed is -1"},
      {"negative drafts",
       [=](Result& r) { sequence(r)->set_accepted_drafts(-1); },
       "accepted_drafts is -1"},
      {"more drafts than tokens",
       [=](Result& r) { sequence(r)->set_accepted_drafts(2); },
       "accepted_drafts is 2, not in [0, 1]"},
      {"a negative token", [=](Result& r) { token(r)->set_token(-1); },
       "token is -1"},
      {"a negative top token",
       [=](Result& r) { token(r)->set_top_token(0, -7); }, "top_token is -7"},
      {"a top token without logprob",
       [=](Result& r) { token(r)->clear_top_logprob(); },
       "top_token has 1 values, top_logprob has 0"},
      {"a proposal without root", [=](Result& r) { tree(r)->Clear(); },
       "sequence 0: tree: no root"},
      {"arrays of two lengths", [=](Result& r) { tree(r)->add_token(1); },
       "arrays differ in length"},
      {"a parent that comes later",
       [=](Result& r) { tree(r)->set_parent(1, 1); }, "node 1 has parent 1"},
      {"a probability that grows",
       [=](Result& r) { tree(r)->set_log_rho(1, 0.5f); }, "log_rho 0.5"},
      {"a probability that is no number",
       [=](Result& r) { tree(r)->set_log_rho(1, NAN); }, "log_rho nan"},
      {"too many sequences",
       [](Result& r) {
         while (r.sequences_size() <= kMaxCodedSequences) r.add_sequences();
       },
       "sequence: 4097 of them"},
  };

  ExpectRefused(cases, GoodResult(), DecodeResult);
}

TEST(StepCodecTest, RefusesWhatIsNoRawResult) {
  using Result = wire::StepResult;
  const auto sequence = [](Result& r) { return r.mutable_sequences(0); };
  const auto tree = [](Result& r) {
    return r.mutable_sequences(0)->mutable_raw_proposal();
  };
  const std::vector<BadCase<Result>> cases = {
      {"half a token", [=](Result& r) { sequence(r)->set_raw_emitted("1234"); },
       "sequence 0: raw_emitted has 4 bytes, not a multiple of 8"},
      {"a negative token",
       [=](Result& r) { sequence(r)->mutable_raw_emitted()->at(3) = '\xff'; },
       "sequence 0: raw_emitted: token is -16777209"},
      {"tokens in two forms",
       [=](Result& r) { sequence(r)->add_emitted()->set_token(7); },
       "sequence 0: emitted and raw_emitted"},
      {"more drafts than tokens",
       [=](Result& r) { sequence(r)->set_accepted_drafts(2); },
       "accepted_drafts is 2, not in [0, 1]"},
      {"a proposal without root", [=](Result& r) { tree(r)->clear(); },
       "sequence 0: tree: no root"},
      {"half a node", [=](Result& r) { tree(r)->pop_back(); },
       "sequence 0: raw_proposal has 19 bytes, not a multiple of 10"},
      {"a node more", [=](Result& r) { tree(r)->append(10, '\0'); },
       "sequence 0: tree: "},
      {"a root with a parent", [=](Result& r) { tree(r)->at(1) = '\0'; },
       "the root has parent 255"},
      {"a parent that comes later", [=](Result& r) { tree(r)->at(2) = '\1'; },
       "node 1 has parent 1"},
      {"a negative parent", [=](Result& r) { tree(r)->at(3) = '\x80'; },
       "node 1 has parent -32768"},
      {"a negative candidate", [=](Result& r) { tree(r)->at(11) = '\x80'; },
       "node 1 has token -"},
      {"a probability that grows", [=](Result& r) { tree(r)->at(19) = '\x40'; },
       "log_rho 2"},
      {"a probability that is no number",
       [=](Result& r) { tree(r)->replace(16, 4, "\xff\xff\xff\xff"); },
       "log_rho"},
      {"a proposal in two forms",
       [=](Result& r) { sequence(r)->mutable_proposal(); },
       "sequence 0: proposal and raw_proposal"},
  };

  Result good;
  EncodeResult(ResultWith(1), good, ResultForm::kRaw);
  ExpectRefused(cases, good, DecodeResult);
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
         l.set_page_size(13);
       },
       "num_pages * page_size is 13, not at least 14"},
  };

  ExpectRefused(cases, good, DecodeLimits);
}

}  // namespace
}  // namespace bole
