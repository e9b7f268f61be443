// The mailbox with several threads on each side.
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "scheduler_service/jobs/mailbox.h"
#include "tests/scheduler_service/jobs/mail.h"

namespace bole {
namespace {

using testing::MakeRequest;
using testing::NumberOf;
using testing::Outcome;

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
        while (mailbox.Submit({&request, 1})) std::this_thread::yield();
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
      mailbox.Release(*request, /*runs=*/true);
    }
  }
  for (std::thread& thread : threads) thread.join();

  EXPECT_EQ(ids.size(), kSubmitters * kRequests);
  EXPECT_TRUE(ordered);
  EXPECT_EQ(mailbox.load().requests, 0);
  EXPECT_EQ(mailbox.load().tokens, 0);
  EXPECT_EQ(mailbox.load().bytes, 0);
}

// Collects the numbers of events that many threads post and any may take.
class Turns {
 public:
  // Only the mailbox synchronises the calls.
  void Take(const Mail& mail) {
    EXPECT_FALSE(busy_.exchange(true)) << "two turns at once";
    for (const WorkerEvent& event : mail.events) {
      numbers_.push_back(NumberOf(event));
    }
    busy_ = false;
  }
  std::vector<uint64_t>& numbers() { return numbers_; }

 private:
  std::atomic<bool> busy_{false};
  std::vector<uint64_t> numbers_;
};

TEST(MailboxThreadsTest, EveryEventIsTakenOnceWhoeverTakesIt) {
  constexpr uint64_t kClients = 3;
  constexpr uint64_t kEvents = 5000;
  Mailbox mailbox({.max_requests = 1, .max_tokens = 1, .max_bytes = 1});
  Turns turns;
  std::atomic<int> running{kClients};
  std::vector<std::thread> clients;
  for (uint64_t c = 0; c < kClients; ++c) {
    clients.emplace_back([&, c] {
      for (uint64_t i = 0; i < kEvents; ++i) {
        const std::optional<Mail> mail =
            mailbox.PostOrTake(Outcome(i * kClients + c));
        if (!mail) continue;
        turns.Take(*mail);
        mailbox.Return(TimePoint::max());
      }
      if (--running == 0) mailbox.Stop();
    });
  }

  for (bool stopped = false; !stopped;) {
    const Mail mail = mailbox.Take(TimePoint::max());
    stopped = mail.stopped;
    turns.Take(mail);
  }
  for (std::thread& client : clients) client.join();

  std::vector<uint64_t> last(kClients, 0);
  bool ordered = true;
  for (const uint64_t number : turns.numbers()) {
    ordered &= number / kClients >= last[number % kClients];
    last[number % kClients] = number / kClients + 1;
  }
  EXPECT_TRUE(ordered);
  EXPECT_EQ(turns.numbers().size(), kClients * kEvents);
  // The mailbox is stopped: callers can no longer take its mail.
  EXPECT_FALSE(mailbox.PostOrTake(Outcome(0)));
}

TEST(MailboxThreadsTest, WhoTakesTheTurnMayShortenTheWait) {
  Mailbox mailbox({.max_requests = 1, .max_tokens = 1, .max_bytes = 1});
  std::thread loop([&] {
    while (!mailbox.Take(TimePoint::max()).events.empty()) continue;
  });

  std::optional<Mail> mail;
  while (!mail) {  // Until the loop waits.
    mail = mailbox.PostOrTake(Outcome(1));
    if (!mail) std::this_thread::yield();
  }
  EXPECT_FALSE(mail->events.empty());
  mailbox.Return(TimePoint::min());

  loop.join();
}

TEST(MailboxThreadsTest, EventsOfAClientArriveInItsOrderWhileOthersCancel) {
  constexpr int kEvents = 5000;
  Mailbox mailbox({.max_requests = 3, .max_tokens = 100, .max_bytes = 1000});
  std::thread client([&] {
    for (int i = 1; i <= kEvents; ++i) mailbox.Post(Outcome(i));
    mailbox.Stop();
  });
  std::thread canceller([&] {
    for (int i = 0; i < kEvents; ++i) {
      std::unique_ptr<Request> request = MakeRequest(1);
      const std::shared_ptr<TokenStream> stream = request->stream;
      (void)mailbox.Submit({&request, 1});
      stream->Cancel();
    }
  });

  uint64_t last = 0;
  bool ordered = true;
  for (bool stopped = false; !stopped;) {
    const Mail mail = mailbox.Take(TimePoint::max());
    stopped = mail.stopped;
    for (const WorkerEvent& event : mail.events) {
      const uint64_t number = NumberOf(event);
      ordered &= number == last + 1;
      last = number;
    }
  }
  client.join();
  canceller.join();

  EXPECT_EQ(last, kEvents);
  EXPECT_TRUE(ordered);
}

}  // namespace
}  // namespace bole
