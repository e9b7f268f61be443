// Results on the wire, in both of their forms.
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/step.h"
#include "gtest/gtest.h"
#include "proto/step_codec.h"
#include "proto/worker.pb.h"
#include "tests/proto/codec_cases.h"
#include "tests/testing/random_step.h"

namespace bole {
namespace {

using ::bole::testing::BadCase;
using ::bole::testing::ExpectRefused;
using ::bole::testing::RandomResult;
using ::bole::testing::Reparse;
namespace wire = worker::v1;

TEST(ResultCodecTest, ResultsComeBackAsTheyWere) {
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
TEST(ResultCodecTest, RawResultsAreLittleEndianArrays) {
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

TEST(ResultCodecTest, WhatHasNoRawFormTravelsAsArrays) {
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
TEST(ResultCodecTest, RecordingsHaveNoRawResults) {
  wire::StepResult message;
  EncodeResult(ResultWith(1), message);

  EXPECT_FALSE(message.sequences(0).has_raw_proposal());
  EXPECT_EQ(message.sequences(0).raw_emitted(), "");
}

TEST(ResultCodecTest, ARoundThatNoLeaseHasIsRefused) {
  wire::StepResult message;
  for (const int round : {-1, kMaxLeaseRounds}) {
    message.set_round(round);
    EXPECT_TRUE(absl::IsInvalidArgument(DecodeResult(message).status()));
  }
}

TEST(ResultCodecTest, ImpossibleCandidatesKeepTheirInfinity) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  StepResult result;
  result.sequences.resize(1);
  result.sequences[0].proposal =
      ProposalTree{{kNoParent, 0}, {1, 2}, {0, -kInfinity}};
  wire::StepResult message;

  EncodeResult(result, message);

  EXPECT_EQ(*DecodeResult(Reparse(message)), result);
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

TEST(ResultCodecTest, RefusesWhatIsNoResult) {
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

TEST(ResultCodecTest, RefusesWhatIsNoRawResult) {
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

}  // namespace
}  // namespace bole
