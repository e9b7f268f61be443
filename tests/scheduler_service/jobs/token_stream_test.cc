#include "scheduler_service/jobs/token_stream.h"

#include <memory>
#include <semaphore>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"

namespace bole {
namespace {

EmittedToken Token(int32_t token) {
  return {.token = token, .logprob = -0.5f, .top = {}};
}

std::vector<int32_t> Ids(const TokenDelta& delta) {
  std::vector<int32_t> ids;
  ids.reserve(delta.tokens.size());
  for (const EmittedToken& token : delta.tokens) ids.push_back(token.token);
  return ids;
}

TEST(TokenStreamTest, NothingToTakeIsAnEmptyDelta) {
  TokenStream stream([] {});

  EXPECT_TRUE(stream.Take().empty());
}

TEST(TokenStreamTest, WhatWasNotTakenIsMergedIntoOneDelta) {
  TokenStream stream([] {});

  stream.Append({Token(1), Token(2)}, "one");
  stream.Append({}, " and");
  stream.Append({Token(3)}, "");
  const TokenDelta delta = stream.Take();

  EXPECT_EQ(Ids(delta), (std::vector<int32_t>{1, 2, 3}));
  EXPECT_EQ(delta.text, "one and");
  EXPECT_FALSE(delta.end.has_value());
}

TEST(TokenStreamTest, ADeltaIsTakenOnce) {
  TokenStream stream([] {});
  stream.Append({Token(1)}, "one");

  EXPECT_FALSE(stream.Take().empty());
  EXPECT_TRUE(stream.Take().empty());
}

TEST(TokenStreamTest, TheEndComesWithTheLastTokens) {
  TokenStream stream([] {});

  stream.Append({Token(1)}, "one");
  stream.Finish(Completion{.matched = std::string("."), .rounds = 3});
  const TokenDelta delta = stream.Take();

  EXPECT_EQ(Ids(delta), std::vector<int32_t>{1});
  ASSERT_TRUE(delta.end.has_value());
  ASSERT_TRUE(delta.end->ok());
  EXPECT_EQ(std::get<std::string>((*delta.end)->matched), ".");
  EXPECT_EQ((*delta.end)->rounds, 3);
  EXPECT_FALSE(stream.Take().end.has_value());
}

TEST(TokenStreamTest, AnErrorIsAnEndToo) {
  TokenStream stream([] {});

  stream.Finish(absl::UnavailableError("the worker is gone"));
  const TokenDelta delta = stream.Take();

  EXPECT_FALSE(delta.empty());
  ASSERT_TRUE(delta.end.has_value());
  EXPECT_TRUE(absl::IsUnavailable(delta.end->status()));
}

TEST(TokenStreamTest, TheReaderIsToldOnlyWhenThereWasNothingBefore) {
  int told = 0;
  TokenStream stream([&] { ++told; });

  stream.Append({Token(1)}, "a");
  stream.Append({Token(2)}, "b");
  EXPECT_EQ(told, 1);

  stream.Take();
  stream.Append({}, "text alone");
  EXPECT_EQ(told, 2);

  stream.Take();
  stream.Finish(Completion{});
  EXPECT_EQ(told, 3);
}

TEST(TokenStreamTest, NothingAppendedTellsNobody) {
  int told = 0;
  TokenStream stream([&] { ++told; });

  stream.Append({}, "");

  EXPECT_EQ(told, 0);
  EXPECT_TRUE(stream.Take().empty());
}

TEST(TokenStreamTest, TheReaderMayTakeWhileItIsTold) {
  std::vector<int32_t> got;
  TokenStream* reader = nullptr;
  TokenStream stream([&] { got = Ids(reader->Take()); });
  reader = &stream;

  stream.Append({Token(7)}, "seven");

  EXPECT_EQ(got, std::vector<int32_t>{7});
}

TEST(TokenStreamTest, CancellingIsSeenAndStopsNoWrites) {
  TokenStream stream([] {});
  EXPECT_FALSE(stream.cancelled());

  stream.Cancel();
  stream.Append({Token(1)}, "one");
  stream.Finish(absl::CancelledError("by the client"));

  EXPECT_TRUE(stream.cancelled());
  EXPECT_TRUE(absl::IsCancelled(stream.Take().end->status()));
}

TEST(TokenStreamTest, OutputIsMergedUpToTheSizeOfADelta) {
  const size_t token_bytes = sizeof(EmittedToken) + 1;
  TokenStream stream([] {}, {.max_delta_bytes = 2 * token_bytes});

  for (int i = 0; i < 5; ++i) stream.Append({Token(i)}, "x");
  stream.Finish(Completion{});

  EXPECT_EQ(stream.waiting_bytes(), 5 * token_bytes);
  EXPECT_EQ(Ids(stream.Take()), (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(Ids(stream.Take()), (std::vector<int32_t>{2, 3}));
  EXPECT_EQ(stream.waiting_bytes(), token_bytes);
  const TokenDelta last = stream.Take();
  EXPECT_EQ(Ids(last), std::vector<int32_t>{4});
  EXPECT_TRUE(last.end.has_value());
  EXPECT_TRUE(stream.Take().empty());
}

TEST(TokenStreamTest, LogProbabilitiesCount) {
  TokenStream stream([] {});

  stream.Append({{.token = 1,
                  .logprob = 0,
                  .top = std::vector<TokenLogprob>(20, TokenLogprob{})}},
                "");

  EXPECT_EQ(stream.waiting_bytes(),
            sizeof(EmittedToken) + 20 * sizeof(TokenLogprob));
}

TEST(TokenStreamTest, WhatThereIsOfThePromptComesOnceAndOnTopOfTheBound) {
  const size_t token_bytes = sizeof(EmittedToken);
  TokenStream stream([] {}, {.max_waiting_bytes = 2 * token_bytes});
  const std::vector<EmittedToken> prompt(10, Token(5));

  stream.Append({Token(1)}, "", prompt);
  EXPECT_EQ(stream.waiting_bytes(), 11 * token_bytes);
  stream.Append({Token(2)}, "");
  EXPECT_FALSE(stream.overflowed());

  const TokenDelta delta = stream.Take();
  EXPECT_EQ(delta.prompt_logprobs, prompt);
  EXPECT_EQ(Ids(delta), (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(stream.waiting_bytes(), 0u);
  for (int i = 0; i < 3; ++i) stream.Append({Token(i)}, "");
  EXPECT_TRUE(stream.overflowed());
  EXPECT_EQ(stream.Take().prompt_logprobs, std::vector<EmittedToken>());
}

TEST(TokenStreamTest, AStreamThatHoldsTooMuchOverflowsAndKeepsNoMore) {
  const size_t token_bytes = sizeof(EmittedToken);
  int told = 0;
  TokenStream stream([&] { ++told; }, {.max_waiting_bytes = 3 * token_bytes});
  for (int i = 0; i < 3; ++i) stream.Append({Token(i)}, "");
  EXPECT_FALSE(stream.overflowed());
  EXPECT_EQ(told, 1);

  for (int i = 3; i < 100; ++i) stream.Append({Token(i)}, "");

  EXPECT_TRUE(stream.overflowed());
  EXPECT_TRUE(stream.cancelled()) << "the loop is to end the request";
  EXPECT_EQ(told, 2) << "once more, for the overflow";
  EXPECT_EQ(stream.waiting_bytes(), 3 * token_bytes);
  EXPECT_EQ(Ids(stream.Take()), (std::vector<int32_t>{0, 1, 2}));
}

TEST(TokenStreamTest, OneDeltaMayWaitWhateverItsSize) {
  TokenStream stream([] {}, {.max_waiting_bytes = 1});

  stream.Append({Token(1), Token(2)}, "long");

  EXPECT_FALSE(stream.overflowed());
  EXPECT_EQ(Ids(stream.Take()), (std::vector<int32_t>{1, 2}));
}

TEST(TokenStreamTest, StreamsThatShareTheirBytesShareTheBound) {
  const auto waiting = std::make_shared<WaitingBytes>(0);
  const TokenStreamLimits limits{.max_waiting_bytes = 4 * sizeof(EmittedToken)};
  TokenStream first([] {}, limits, waiting);
  TokenStream second([] {}, limits, waiting);
  first.Append({Token(1), Token(2)}, "");
  second.Append({Token(3)}, "");

  second.Append({Token(4)}, "");
  EXPECT_FALSE(second.overflowed());
  first.Take();
  second.Append({Token(5)}, "");
  EXPECT_FALSE(second.overflowed()) << "the other has none any more";
  first.Append({Token(6), Token(7)}, "");
  EXPECT_FALSE(first.overflowed()) << "one delta may always wait";
  second.Append({Token(8)}, "");

  EXPECT_TRUE(second.overflowed());
  EXPECT_FALSE(first.overflowed());
  second.Discard();
  EXPECT_EQ(*waiting, 2 * sizeof(EmittedToken));
}

TEST(TokenStreamTest, AReaderWhoTakesInTimeNeverOverflows) {
  TokenStream stream([] {}, {.max_waiting_bytes = 2 * sizeof(EmittedToken)});

  for (int i = 0; i < 100; ++i) {
    stream.Append({Token(i), Token(i)}, "");
    EXPECT_EQ(Ids(stream.Take()), (std::vector<int32_t>{i, i}));
  }

  EXPECT_FALSE(stream.overflowed());
  EXPECT_EQ(stream.waiting_bytes(), 0u);
}

TEST(TokenStreamTest, AfterDiscardOnlyTheEndComes) {
  TokenStream stream([] {});
  stream.Append({Token(1)}, "one");

  stream.Discard();
  stream.Append({Token(2)}, "two");
  EXPECT_EQ(stream.waiting_bytes(), 0u);
  stream.Finish(absl::CancelledError("by the client"));

  const TokenDelta delta = stream.Take();
  EXPECT_TRUE(delta.tokens.empty());
  EXPECT_TRUE(absl::IsCancelled(delta.end->status()));
}

// Takes whenever told, as an RPC does, until the end.
class Reader {
 public:
  explicit Reader(int pause) : pause_(pause) {}

  void Tell() { ready_.release(); }

  void ReadAll(TokenStream& stream) {
    for (bool ended = false; !ended;) {
      ready_.acquire();
      for (int i = 0; i < pause_; ++i) std::this_thread::yield();
      TokenDelta delta = stream.Take();
      EXPECT_FALSE(delta.empty()) << "told of nothing";
      for (const int32_t id : Ids(delta)) ids_.push_back(id);
      text_ += delta.text;
      ++deltas_;
      ended = delta.end.has_value();
    }
  }

  const std::vector<int32_t>& ids() const { return ids_; }
  const std::string& text() const { return text_; }
  int deltas() const { return deltas_; }

 private:
  const int pause_;
  std::counting_semaphore<> ready_{0};
  std::vector<int32_t> ids_;
  std::string text_;
  int deltas_ = 0;
};

class TokenStreamThreadsTest : public testing::TestWithParam<int> {};

TEST_P(TokenStreamThreadsTest, AReaderWhoTakesWhenToldGetsEverythingInOrder) {
  constexpr int kTokens = 20000;
  Reader reader(GetParam());
  TokenStream stream([&] { reader.Tell(); });

  std::thread writer([&] {
    for (int i = 0; i < kTokens; ++i) {
      stream.Append({Token(i)},
                    std::string(1, static_cast<char>('a' + i % 26)));
    }
    stream.Finish(Completion{.matched = {}, .rounds = kTokens});
  });
  std::thread canceller([&] { stream.Cancel(); });
  reader.ReadAll(stream);
  writer.join();
  canceller.join();

  ASSERT_EQ(reader.ids().size(), kTokens);
  for (int i = 0; i < kTokens; ++i) {
    ASSERT_EQ(reader.ids()[i], i);
    ASSERT_EQ(reader.text()[i], 'a' + i % 26);
  }
  EXPECT_LE(reader.deltas(), kTokens + 1);
  EXPECT_TRUE(stream.cancelled());
  EXPECT_TRUE(stream.Take().empty());
}

INSTANTIATE_TEST_SUITE_P(Pauses, TokenStreamThreadsTest,
                         testing::Values(0, 1, 50));

TEST(TokenStreamTest, TheHookIsCalledOnceByWhoeverCancels) {
  TokenStream stream([] {});
  int calls = 0;
  stream.SetCancelHook([&] { ++calls; });

  stream.Cancel();
  stream.Cancel();

  EXPECT_EQ(calls, 1);
}

TEST(TokenStreamTest, AHookThatComesLateIsCalledNow) {
  TokenStream stream([] {});
  stream.Cancel();
  int calls = 0;

  stream.SetCancelHook([&] { ++calls; });

  EXPECT_EQ(calls, 1);
}

TEST(TokenStreamTest, AStreamThatOverflowsCallsTheHook) {
  TokenStream stream([] {}, {.max_waiting_bytes = 1});
  int calls = 0;
  stream.SetCancelHook([&] { ++calls; });
  stream.Append({}, "first");
  EXPECT_EQ(calls, 0);

  stream.Append({}, "second");

  EXPECT_EQ(calls, 1);
}

TEST(TokenStreamTest, AfterTheEndThereIsNoHook) {
  TokenStream stream([] {});
  int calls = 0;
  stream.SetCancelHook([&] { ++calls; });
  stream.Finish(Completion());

  stream.Cancel();
  stream.SetCancelHook([&] { ++calls; });

  EXPECT_EQ(calls, 0);
}

}  // namespace
}  // namespace bole
