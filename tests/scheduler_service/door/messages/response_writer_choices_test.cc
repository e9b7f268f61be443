// Several choices of one call.
#include <vector>

#include "absl/status/status.h"
#include "common/step.h"
#include "gtest/gtest.h"
#include "scheduler_service/door/messages/response_writer.h"
#include "tests/scheduler_service/door/messages/response_writer_fixture.h"

namespace bole {
namespace {

class ResponseWriterChoicesTest : public testing::ResponseWriterTest {};

TEST_F(ResponseWriterChoicesTest, ChoicesTakeTurnsAndTheCallEndsWithTheLast) {
  Start({.num_choices = 3});
  sink_->Hold();
  AppendTo(1, 10);
  sink_->AwaitSends(1);
  for (int i = 0; i < 5; ++i) AppendTo(1, 11 + i);
  AppendTo(0, 20);
  AppendTo(2, 30);
  stream(1).Finish(Completion{.matched = int32_t{15}});
  sink_->Release();

  TakeMessages(1, 2);
  sink_->AwaitSends(3);  // Of choices 1, 2 and 0.
  EXPECT_EQ(sink_->ids(1), (std::vector<int32_t>{10}));
  EXPECT_EQ(sink_->ids(2), (std::vector<int32_t>{30}));
  EXPECT_EQ(sink_->ids(0), (std::vector<int32_t>{20}));
  stream(2).Finish(Completion());
  stream(0).Finish(Completion());

  // A chunk and three ends, of which the last ends the call.
  TakeMessages(3, 6);
  EXPECT_TRUE(sink_->AwaitEnd().ok());
  EXPECT_EQ(sink_->ids(1), (std::vector<int32_t>{10, 11, 12, 13, 14, 15}));
  const auto completes = sink_->completes();
  ASSERT_EQ(completes.size(), 3u);
  EXPECT_EQ(completes.at(1).finish_reason(), v1::FINISH_REASON_STOP);
  EXPECT_EQ(completes.at(1).usage().completion_tokens(), 6u);
  EXPECT_EQ(completes.at(2).usage().completion_tokens(), 1u);
}

TEST_F(ResponseWriterChoicesTest,
       AChoiceThatFailsEndsTheCallAndCancelsTheOthers) {
  Start({.num_choices = 3});
  AppendTo(0, 1);
  TakeMessages(1, 1);
  stream(0).Finish(Completion());
  TakeMessages(2, 2);
  AppendTo(2, 1);
  sink_->AwaitSends(3);

  stream(1).Finish(absl::UnavailableError("the worker is gone"));
  writer_->OnWriteDone(true);

  EXPECT_TRUE(absl::IsUnavailable(sink_->AwaitEnd()));
  EXPECT_TRUE(stream(2).cancelled());
  // The prompt counts once.
  EXPECT_EQ(sink_->usage().prompt_tokens(), 2u);
  EXPECT_EQ(sink_->usage().completion_tokens(), 2u);
  AppendTo(2, 2);
  stream(2).Finish(absl::CancelledError("by the call"));
}

TEST_F(ResponseWriterChoicesTest, TheBoundOnWhatWaitsIsThatOfAllChoices) {
  ResponseWriter& writer =
      Start({.num_choices = 4, .stream = {.max_waiting_bytes = 1000}});
  AppendTo(0, 1);
  sink_->AwaitSends(1);

  // No choice has as much as that by itself.
  for (int i = 0; i < 10; ++i) {
    for (uint32_t choice = 0; choice < 4; ++choice) AppendTo(choice, i);
  }

  EXPECT_TRUE(absl::IsResourceExhausted(sink_->AwaitBreak()));
  EXPECT_EQ(fault_.get_future().get(), ReaderFault::kBehind);
  for (uint32_t i = 0; i < 4; ++i) EXPECT_TRUE(stream(i).cancelled());
  EXPECT_EQ(writer.held().total(), 0u);
  writer.OnWriteDone(false);
  EXPECT_TRUE(absl::IsResourceExhausted(sink_->AwaitEnd()));
}

TEST_F(ResponseWriterChoicesTest, ACancelledCallCancelsEveryChoice) {
  ResponseWriter& writer = Start({.num_choices = 2});
  AppendTo(1, 1);
  TakeMessages(1, 1);

  writer.OnCancel(/*overdue=*/false);

  EXPECT_TRUE(absl::IsCancelled(sink_->AwaitEnd()));
  EXPECT_TRUE(stream(0).cancelled());
  EXPECT_TRUE(stream(1).cancelled());
  EXPECT_EQ(sink_->usage().completion_tokens(), 1u);
}

TEST_F(ResponseWriterChoicesTest, WhatWaitsAndIsKeptIsThatOfAllChoices) {
  ResponseWriter& writer = Start({.num_choices = 2, .chunks = false});
  AppendTo(0, 1);
  stream(0).Finish(Completion());
  sink_->AwaitSends(1);  // The complete message of the first choice.
  for (int i = 0; i < 100; ++i) AppendTo(1, i);
  EXPECT_GE(writer.held().waiting, 100 * sizeof(EmittedToken));

  writer.OnWriteDone(true);

  EXPECT_EQ(writer.held().waiting, 0u);
  EXPECT_GE(writer.held().kept, 100 * sizeof(int32_t));
}

}  // namespace
}  // namespace bole
