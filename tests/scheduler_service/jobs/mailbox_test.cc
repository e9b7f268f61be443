#include "scheduler_service/jobs/mailbox.h"

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/ids.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/scheduler_service/jobs/mail.h"

namespace bole {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using ::testing::ElementsAre;
using testing::MakeRequest;
using testing::NumberOf;
using testing::Outcome;

constexpr AdmissionLimits kLimits{
    .max_requests = 3, .max_tokens = 100, .max_bytes = 1000};
constexpr TimePoint kNow = TimePoint::min();

// Why it was refused; none if it was taken.
std::optional<RefusalReason> Submit(Mailbox& mailbox, int tokens,
                                    size_t bytes = 0) {
  std::unique_ptr<Request> request = MakeRequest(tokens, bytes);
  const std::optional<Refusal> refusal = mailbox.Submit({&request, 1});
  if (!refusal) return std::nullopt;
  return refusal->reason;
}

TEST(MailboxTest, RequestsAndEventsComeOldestFirst) {
  Mailbox mailbox(kLimits);
  for (const char* id : {"a", "b", "c"}) {
    std::unique_ptr<Request> request = MakeRequest(1, 0, id);
    ASSERT_FALSE(mailbox.Submit({&request, 1}).has_value());
    EXPECT_EQ(request, nullptr);
  }
  mailbox.Post(Outcome(1));
  mailbox.Post(Outcome(2));

  const Mail mail = mailbox.Take(TimePoint::max());

  ASSERT_EQ(mail.requests.size(), 3);
  EXPECT_EQ(mail.requests[0]->id, "a");
  EXPECT_EQ(mail.requests[2]->id, "c");
  ASSERT_EQ(mail.events.size(), 2);
  EXPECT_EQ(NumberOf(mail.events[0]), 1);
  EXPECT_EQ(NumberOf(mail.events[1]), 2);
  EXPECT_FALSE(mail.draining);
  EXPECT_FALSE(mail.stopped);
}

TEST(MailboxTest, MailIsTakenOnce) {
  Mailbox mailbox(kLimits);
  ASSERT_EQ(Submit(mailbox, 1), std::nullopt);
  mailbox.Post(Outcome(1));

  mailbox.Take(kNow);
  const Mail again = mailbox.Take(kNow);

  EXPECT_TRUE(again.requests.empty());
  EXPECT_TRUE(again.events.empty());
}

TEST(MailboxTest, AFullQueueRefusesAndLeavesTheRequest) {
  Mailbox mailbox(kLimits);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(Submit(mailbox, 1), std::nullopt);

  std::unique_ptr<Request> request = MakeRequest(1, 0, "fourth");
  const std::optional<Refusal> refusal = mailbox.Submit({&request, 1});

  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->reason, RefusalReason::kQueueRequests);
  ASSERT_NE(request, nullptr);
  EXPECT_EQ(request->id, "fourth");
  EXPECT_EQ(mailbox.load().requests, 3);
  EXPECT_EQ(mailbox.Take(kNow).requests.size(), 3);
}

TEST(MailboxTest, EachBoundHasItsReason) {
  Mailbox mailbox(kLimits);
  ASSERT_EQ(Submit(mailbox, 40, 100), std::nullopt);

  EXPECT_EQ(Submit(mailbox, 61, 10), RefusalReason::kQueueTokens);
  EXPECT_EQ(Submit(mailbox, 1, 901), RefusalReason::kQueueBytes);
  EXPECT_EQ(Submit(mailbox, 60, 900), std::nullopt);
}

TEST(MailboxTest, ATenantThatFillsTheQueueDoesNotKeepAnotherOut) {
  Mailbox mailbox({.max_requests = 18});
  const auto submit = [&mailbox](const std::string& tenant) {
    std::unique_ptr<Request> request = MakeRequest(1);
    request->tenant = tenant;
    return !mailbox.Submit({&request, 1}).has_value();
  };
  for (int i = 0; i < 18; ++i) ASSERT_TRUE(submit("flood"));
  EXPECT_FALSE(submit("flood"));
  EXPECT_TRUE(mailbox.Check("flood", /*bytes=*/1).has_value());

  EXPECT_FALSE(mailbox.Check("other", /*bytes=*/1).has_value());
  EXPECT_TRUE(submit("other"));
  EXPECT_TRUE(submit("other"));
  EXPECT_FALSE(submit("other"));

  const Mail mail = mailbox.Take(kNow);
  for (const auto& request : mail.requests) {
    mailbox.Release(*request, /*runs=*/true);
  }
  EXPECT_EQ(mailbox.load().requests, 0);
  for (int i = 0; i < 18; ++i) EXPECT_TRUE(submit("other"));
}

TEST(MailboxTest, CheckRefusesWhatSubmitWouldWhateverItsPrompt) {
  Mailbox mailbox(kLimits);
  ASSERT_EQ(Submit(mailbox, 99, 100), std::nullopt);
  EXPECT_FALSE(mailbox.Check("", /*bytes=*/900).has_value());

  const std::optional<Refusal> bytes = mailbox.Check("", /*bytes=*/901);
  ASSERT_EQ(Submit(mailbox, 1, 0), std::nullopt);
  const std::optional<Refusal> tokens = mailbox.Check("", /*bytes=*/1);
  mailbox.Drain();
  const std::optional<Refusal> drained = mailbox.Check("", /*bytes=*/1);

  ASSERT_TRUE(bytes && tokens && drained);
  EXPECT_EQ(bytes->reason, RefusalReason::kQueueBytes);
  EXPECT_EQ(tokens->reason, RefusalReason::kQueueTokens);
  EXPECT_EQ(drained->reason, RefusalReason::kDraining);
}

TEST(MailboxTest, TheRetryDelayIsWhatWaitsOverWhatRanLately) {
  TimePoint now(std::chrono::hours(1));
  Mailbox mailbox({}, [&] { return now; });
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(Submit(mailbox, 600), std::nullopt);
  }
  const Mail mail = mailbox.Take(kNow);
  EXPECT_EQ(mailbox.RetryDelay(), kFirstRetryDelay);

  now += milliseconds(200);
  mailbox.Release(*mail.requests[0], /*runs=*/false);
  EXPECT_EQ(mailbox.RetryDelay(), kFirstRetryDelay);
  mailbox.Release(*mail.requests[1], /*runs=*/true);

  // 600 tokens in 200 ms, and 600 wait.
  EXPECT_NEAR(mailbox.RetryDelay().count(), 200, 3);
  now += milliseconds(200);
  EXPECT_NEAR(mailbox.RetryDelay().count(), 400, 10);
}

TEST(MailboxTest, ARequestBeyondABoundIsTakenAlone) {
  Mailbox mailbox(kLimits);

  EXPECT_EQ(Submit(mailbox, 5000, 50000), std::nullopt);
  EXPECT_EQ(Submit(mailbox, 1, 1), RefusalReason::kQueueTokens);
}

// As many requests as `tokens` says, of one call.
std::vector<std::unique_ptr<Request>> MakeGroup(const std::vector<int>& tokens,
                                                size_t bytes = 0) {
  std::vector<std::unique_ptr<Request>> group;
  group.reserve(tokens.size());
  for (const int num : tokens) group.push_back(MakeRequest(num, bytes));
  return group;
}

TEST(MailboxTest, ACallIsTakenWholeOrLeftWhole) {
  Mailbox mailbox(kLimits);
  ASSERT_EQ(Submit(mailbox, 10, 100), std::nullopt);
  auto too_many = MakeGroup({1, 1, 1});
  auto too_long = MakeGroup({50, 41});
  auto too_large = MakeGroup({1, 1}, /*bytes=*/451);
  auto fits = MakeGroup({50, 40}, /*bytes=*/450);

  const auto many = mailbox.Submit(too_many);
  const auto tokens = mailbox.Submit(too_long);
  const auto bytes = mailbox.Submit(too_large);

  ASSERT_TRUE(many && tokens && bytes);
  EXPECT_EQ(many->reason, RefusalReason::kQueueRequests);
  EXPECT_EQ(tokens->reason, RefusalReason::kQueueTokens);
  EXPECT_EQ(bytes->reason, RefusalReason::kQueueBytes);
  for (const auto& request : too_many) EXPECT_NE(request, nullptr);
  EXPECT_EQ(mailbox.load().requests, 1);
  EXPECT_FALSE(mailbox.Submit(fits).has_value());
  EXPECT_EQ(mailbox.load().requests, 3);
  EXPECT_EQ(mailbox.load().tokens, 100);
  EXPECT_EQ(mailbox.load().bytes, 1000);
}

TEST(MailboxTest, ACallThatAloneIsTooLargeIsTakenAlone) {
  Mailbox mailbox(kLimits);
  auto large = MakeGroup({5000, 5000, 5000}, /*bytes=*/2000);
  auto many = MakeGroup({1, 1, 1, 1});

  const auto refused = mailbox.Submit(many);
  EXPECT_FALSE(mailbox.Submit(large).has_value());

  ASSERT_TRUE(refused.has_value());
  EXPECT_EQ(refused->reason, RefusalReason::kQueueRequests);
}

TEST(MailboxTest, EachRequestOfACallIsCancelledByItself) {
  Mailbox mailbox(kLimits);
  auto group = MakeGroup({1, 1});
  const std::shared_ptr<TokenStream> second = group[1]->stream;
  ASSERT_FALSE(mailbox.Submit(group).has_value());

  second->Cancel();

  const Mail mail = mailbox.Take(TimePoint::max());
  EXPECT_THAT(mail.cancelled, ElementsAre(*mail.requests[1]->job));
}

TEST(MailboxTest, TakingARequestMakesNoRoomReleasingItDoes) {
  Mailbox mailbox(kLimits);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(Submit(mailbox, 10, 5), std::nullopt);

  const Mail mail = mailbox.Take(kNow);
  EXPECT_EQ(Submit(mailbox, 1), RefusalReason::kQueueRequests);
  mailbox.Release(*mail.requests[0], /*runs=*/true);

  EXPECT_EQ(mailbox.load().requests, 2);
  EXPECT_EQ(mailbox.load().tokens, 20);
  EXPECT_EQ(mailbox.load().bytes, 10);
  EXPECT_EQ(Submit(mailbox, 1), std::nullopt);
}

TEST(MailboxTest, TakeReturnsAtTheDeadline) {
  Mailbox mailbox(kLimits);
  const TimePoint deadline = steady_clock::now() + milliseconds(20);

  const Mail mail = mailbox.Take(deadline);

  EXPECT_GE(steady_clock::now(), deadline);
  EXPECT_TRUE(mail.requests.empty());
}

// With nothing to wait for Take() would not return: the time limit of the test
// is the assertion.
TEST(MailboxTest, ACancelledStreamNamesItsRequestAndEndsOneWait) {
  Mailbox mailbox(kLimits);
  ASSERT_EQ(Submit(mailbox, 1), std::nullopt);
  std::unique_ptr<Request> second = MakeRequest(1);
  const std::shared_ptr<TokenStream> stream = second->stream;
  ASSERT_FALSE(mailbox.Submit({&second, 1}).has_value());
  const Mail asked = mailbox.Take(TimePoint::max());
  stream->Cancel();
  stream->Cancel();

  const Mail mail = mailbox.Take(TimePoint::max());
  const TimePoint deadline = steady_clock::now() + milliseconds(20);
  const Mail later = mailbox.Take(deadline);

  EXPECT_NE(asked.requests[0]->job, asked.requests[1]->job);
  EXPECT_THAT(mail.cancelled, ElementsAre(*asked.requests[1]->job));
  EXPECT_GE(steady_clock::now(), deadline);
  EXPECT_TRUE(later.cancelled.empty());
}

TEST(MailboxTest, AStreamThatWasCancelledBeforeIsNamedWithItsRequest) {
  Mailbox mailbox(kLimits);
  std::unique_ptr<Request> request = MakeRequest(1);
  request->stream->Cancel();
  ASSERT_FALSE(mailbox.Submit({&request, 1}).has_value());

  const Mail mail = mailbox.Take(TimePoint::max());

  EXPECT_THAT(mail.cancelled, ElementsAre(*mail.requests[0]->job));
}

TEST(MailboxTest, AStreamThatEndedIsNotNamed) {
  Mailbox mailbox(kLimits);
  ASSERT_EQ(Submit(mailbox, 1), std::nullopt);
  const Mail asked = mailbox.Take(TimePoint::max());
  asked.requests[0]->stream->Finish(Completion());
  asked.requests[0]->stream->Cancel();

  EXPECT_TRUE(mailbox.Take(kNow).cancelled.empty());
}

TEST(MailboxTest, AfterDrainRequestsAreRefusedAndEventsTaken) {
  Mailbox mailbox(kLimits);
  ASSERT_EQ(Submit(mailbox, 1), std::nullopt);
  mailbox.Drain();
  EXPECT_EQ(Submit(mailbox, 1), RefusalReason::kDraining);
  mailbox.Post(Outcome(1));

  const Mail mail = mailbox.Take(TimePoint::max());

  EXPECT_EQ(mail.requests.size(), 1);
  EXPECT_EQ(mail.events.size(), 1);
  EXPECT_TRUE(mail.draining);
  EXPECT_FALSE(mail.stopped);
}

TEST(MailboxTest, OnlyTheFirstMailAfterDrainOrStopDoesNotWait) {
  Mailbox mailbox(kLimits);
  for (const bool stop : {false, true}) {
    SCOPED_TRACE(stop);
    stop ? mailbox.Stop() : mailbox.Drain();
    mailbox.Take(TimePoint::max());

    const TimePoint deadline = steady_clock::now() + milliseconds(20);
    const Mail mail = mailbox.Take(deadline);

    EXPECT_GE(steady_clock::now(), deadline);
    EXPECT_TRUE(mail.draining);
    EXPECT_EQ(mail.stopped, stop);
  }
  EXPECT_EQ(Submit(mailbox, 1), RefusalReason::kDraining);
}

}  // namespace
}  // namespace bole
