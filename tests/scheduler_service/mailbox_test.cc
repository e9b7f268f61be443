#include "scheduler_service/mailbox.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace bole {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr AdmissionLimits kLimits{
    .max_requests = 3, .max_tokens = 100, .max_bytes = 1000};
constexpr TimePoint kNow = TimePoint::min();

std::unique_ptr<Request> MakeRequest(int tokens, size_t bytes = 0,
                                     std::string id = "") {
  auto request = std::make_unique<Request>();
  request->id = std::move(id);
  request->prompt.assign(tokens, 1);
  request->bytes = bytes;
  return request;
}

absl::Status Submit(Mailbox& mailbox, int tokens, size_t bytes = 0) {
  std::unique_ptr<Request> request = MakeRequest(tokens, bytes);
  return mailbox.Submit(request);
}

WorkerEvent Outcome(uint64_t plan_number) {
  return WorkerOutcome{
      .epoch = 1, .plan_number = plan_number, .result = StepResult{}};
}

TEST(MailboxTest, RequestsAndEventsComeOldestFirst) {
  Mailbox mailbox(kLimits);
  for (const char* id : {"a", "b", "c"}) {
    std::unique_ptr<Request> request = MakeRequest(1, 0, id);
    ASSERT_TRUE(mailbox.Submit(request).ok());
    EXPECT_EQ(request, nullptr);
  }
  mailbox.Post(Outcome(1));
  mailbox.Post(Outcome(2));

  const Mail mail = mailbox.Take(TimePoint::max());

  ASSERT_EQ(mail.requests.size(), 3);
  EXPECT_EQ(mail.requests[0]->id, "a");
  EXPECT_EQ(mail.requests[2]->id, "c");
  ASSERT_EQ(mail.events.size(), 2);
  EXPECT_EQ(std::get<WorkerOutcome>(mail.events[0]).plan_number, 1);
  EXPECT_EQ(std::get<WorkerOutcome>(mail.events[1]).plan_number, 2);
  EXPECT_FALSE(mail.draining);
  EXPECT_FALSE(mail.stopped);
}

TEST(MailboxTest, MailIsTakenOnce) {
  Mailbox mailbox(kLimits);
  ASSERT_TRUE(Submit(mailbox, 1).ok());
  mailbox.Post(Outcome(1));

  mailbox.Take(kNow);
  const Mail again = mailbox.Take(kNow);

  EXPECT_TRUE(again.requests.empty());
  EXPECT_TRUE(again.events.empty());
}

TEST(MailboxTest, AFullQueueRefusesAndLeavesTheRequest) {
  Mailbox mailbox(kLimits);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(Submit(mailbox, 1).ok());

  std::unique_ptr<Request> request = MakeRequest(1, 0, "fourth");
  const absl::Status status = mailbox.Submit(request);

  EXPECT_TRUE(absl::IsResourceExhausted(status));
  EXPECT_NE(status.message().find("queue_requests"), std::string::npos);
  ASSERT_NE(request, nullptr);
  EXPECT_EQ(request->id, "fourth");
  EXPECT_EQ(mailbox.load().requests, 3);
  EXPECT_EQ(mailbox.Take(kNow).requests.size(), 3);
}

TEST(MailboxTest, EachBoundIsNamedAndExact) {
  struct Case {
    int tokens;
    size_t bytes;
    std::string name;
  };
  for (const Case& bad :
       {Case{61, 10, "queue_tokens"}, Case{1, 901, "queue_bytes"}}) {
    SCOPED_TRACE(bad.name);
    Mailbox mailbox(kLimits);
    ASSERT_TRUE(Submit(mailbox, 40, 100).ok());

    const absl::Status status = Submit(mailbox, bad.tokens, bad.bytes);
    const absl::Status fits = Submit(mailbox, 60, 900);

    EXPECT_TRUE(absl::IsResourceExhausted(status));
    EXPECT_NE(status.message().find(bad.name), std::string::npos) << status;
    EXPECT_TRUE(fits.ok()) << fits;
  }
}

TEST(MailboxTest, ARequestBeyondABoundIsTakenAlone) {
  Mailbox mailbox(kLimits);

  EXPECT_TRUE(Submit(mailbox, 5000, 50000).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(Submit(mailbox, 1, 1)));
}

TEST(MailboxTest, TakingARequestMakesNoRoomReleasingItDoes) {
  Mailbox mailbox(kLimits);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(Submit(mailbox, 10, 5).ok());

  const Mail mail = mailbox.Take(kNow);
  EXPECT_TRUE(absl::IsResourceExhausted(Submit(mailbox, 1)));
  mailbox.Release(*mail.requests[0]);

  EXPECT_EQ(mailbox.load().requests, 2);
  EXPECT_EQ(mailbox.load().tokens, 20);
  EXPECT_EQ(mailbox.load().bytes, 10);
  EXPECT_TRUE(Submit(mailbox, 1).ok());
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
TEST(MailboxTest, WakingEndsOneWait) {
  Mailbox mailbox(kLimits);
  mailbox.Wake();

  const Mail mail = mailbox.Take(TimePoint::max());
  const TimePoint deadline = steady_clock::now() + milliseconds(20);
  mailbox.Take(deadline);

  EXPECT_TRUE(mail.requests.empty());
  EXPECT_GE(steady_clock::now(), deadline);
}

TEST(MailboxTest, AfterDrainRequestsAreRefusedAndEventsTaken) {
  Mailbox mailbox(kLimits);
  ASSERT_TRUE(Submit(mailbox, 1).ok());
  mailbox.Drain();
  EXPECT_TRUE(absl::IsUnavailable(Submit(mailbox, 1)));
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
  EXPECT_TRUE(absl::IsUnavailable(Submit(mailbox, 1)));
}

TEST(MailboxThreadsTest, EveryRequestThatWasTakenInArrivesOnce) {
  constexpr int kSubmitters = 4;
  constexpr int kRequests = 2000;
  Mailbox mailbox({.max_requests = 5, .max_tokens = 40, .max_bytes = 400});
  std::atomic<int> running{kSubmitters};
  std::vector<std::thread> threads;
  threads.reserve(kSubmitters);
  for (int s = 0; s < kSubmitters; ++s) {
    threads.emplace_back([&, s] {
      for (int i = 0; i < kRequests; ++i) {
        std::unique_ptr<Request> request =
            MakeRequest(1 + i % 20, i % 100, std::to_string(s * kRequests + i));
        while (!mailbox.Submit(request).ok()) std::this_thread::yield();
      }
      if (--running == 0) mailbox.Drain();
    });
  }

  std::set<std::string> ids;
  bool ordered = true;
  std::vector<int> last(kSubmitters, -1);
  for (bool draining = false; !draining;) {
    const Mail mail = mailbox.Take(TimePoint::max());
    draining = mail.draining;
    EXPECT_LE(mail.requests.size(), 5);
    for (const std::unique_ptr<Request>& request : mail.requests) {
      const int number = std::stoi(request->id);
      ordered &= number % kRequests > last[number / kRequests];
      last[number / kRequests] = number % kRequests;
      ids.insert(request->id);
      mailbox.Release(*request);
    }
  }
  for (std::thread& thread : threads) thread.join();

  EXPECT_EQ(ids.size(), kSubmitters * kRequests);
  EXPECT_TRUE(ordered);
  EXPECT_EQ(mailbox.load().requests, 0);
  EXPECT_EQ(mailbox.load().tokens, 0);
  EXPECT_EQ(mailbox.load().bytes, 0);
}

TEST(MailboxThreadsTest, EventsOfAClientArriveInItsOrderWhileOthersWake) {
  constexpr int kEvents = 5000;
  Mailbox mailbox(kLimits);
  std::thread client([&] {
    for (int i = 1; i <= kEvents; ++i) mailbox.Post(Outcome(i));
    mailbox.Stop();
  });
  std::thread waker([&] {
    for (int i = 0; i < kEvents; ++i) mailbox.Wake();
  });

  uint64_t last = 0;
  bool ordered = true;
  for (bool stopped = false; !stopped;) {
    const Mail mail = mailbox.Take(TimePoint::max());
    stopped = mail.stopped;
    for (const WorkerEvent& event : mail.events) {
      const uint64_t number = std::get<WorkerOutcome>(event).plan_number;
      ordered &= number == last + 1;
      last = number;
    }
  }
  client.join();
  waker.join();

  EXPECT_EQ(last, kEvents);
  EXPECT_TRUE(ordered);
}

}  // namespace
}  // namespace bole
