#include "scheduler_service/door/http/http_text_call.h"

#include <chrono>
#include <cstddef>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "common/net/http/http_handler.h"
#include "common/net/http/http_message.h"
#include "gtest/gtest.h"
#include "tests/scheduler_service/door/tiny_door.h"
#include "tests/scheduler_service/scrape.h"

namespace bole {
namespace {

using testing::TinyDoor;

// Keeps the answer, which there is one of.
class KeptExchange : public HttpExchange {
 public:
  void Answer(HttpAnswer answer) override {
    answer_.set_value(std::move(answer));
  }
  void Begin(HttpAnswer) override { FAIL(); }
  void Write(std::string, bool) override { FAIL(); }
  void Break() override { FAIL(); }

  bool answered() {
    return future_.wait_for(std::chrono::seconds(0)) ==
           std::future_status::ready;
  }
  HttpAnswer Get() { return future_.get(); }

 private:
  std::promise<HttpAnswer> answer_;
  std::future<HttpAnswer> future_ = answer_.get_future();
};

// A call, and the call's exchange.
struct Asked {
  std::shared_ptr<KeptExchange> exchange = std::make_shared<KeptExchange>();
  std::shared_ptr<HttpCall> call = nullptr;
};

struct TextSystem {
  explicit TextSystem(size_t max_waiting)
      : tiny({.max_long_messages = max_waiting}) {}

  Asked Ask(const std::string& text) {
    Asked asked;
    asked.call = HttpTextCall::Start(tiny.door, "id", asked.exchange, [text] {
      return HttpAnswer{.body = text};
    });
    return asked;
  }
  // Runs until Release(), when this has returned.
  Asked Block() {
    Asked asked;
    asked.call =
        HttpTextCall::Start(tiny.door, "id", asked.exchange, [this]() mutable {
          started.set_value();
          release.get_future().wait();
          return HttpAnswer{.body = "blocked"};
        });
    started.get_future().wait();
    return asked;
  }
  void Release() { release.set_value(); }
  double Rejected(const std::string& reason) {
    return testing::Scrape(tiny.registry)
        .at("bole_text_calls_rejected_total{reason=\"" + reason + "\"}");
  }

  std::promise<void> started;
  std::promise<void> release;
  TinyDoor tiny;
};

TEST(HttpTextCallTest, ACallWhoseClientLeavesWhileItWaitsNeverRuns) {
  TextSystem system(/*max_waiting=*/1);
  Asked running = system.Block();
  Asked gone = system.Ask("gone");

  gone.call->OnGone();

  EXPECT_TRUE(gone.exchange->answered());
  EXPECT_NE(gone.exchange->Get().body, "gone");
  EXPECT_EQ(system.Rejected("cancelled"), 1);
  // Its place is free while the first one still runs.
  Asked next = system.Ask("next");
  system.Release();
  EXPECT_EQ(running.exchange->Get().body, "blocked");
  const HttpAnswer answer = next.exchange->Get();
  EXPECT_EQ(answer.body, "next");
  EXPECT_EQ(answer.headers.front().second, "id");
}

TEST(HttpTextCallTest, ACallThatRunsIsNotCancelled) {
  TextSystem system(/*max_waiting=*/1);
  Asked running = system.Block();

  running.call->OnGone();

  EXPECT_FALSE(running.exchange->answered());
  system.Release();
  EXPECT_EQ(running.exchange->Get().status, 200);
  EXPECT_EQ(system.Rejected("cancelled"), 0);
}

TEST(HttpTextCallTest, TooManyThatWaitAreRefused) {
  TextSystem system(/*max_waiting=*/1);
  Asked running = system.Block();
  Asked waiting = system.Ask("waiting");

  Asked refused = system.Ask("refused");

  const HttpAnswer answer = refused.exchange->Get();
  EXPECT_EQ(answer.status, 429);
  EXPECT_EQ(answer.headers.front().first, "Retry-After");
  EXPECT_EQ(system.Rejected("long_messages"), 1);
  system.Release();
  EXPECT_EQ(waiting.exchange->Get().body, "waiting");
}

TEST(HttpTextCallTest, ADrainRefusesWhatStillWaits) {
  TextSystem system(/*max_waiting=*/1);
  Asked running = system.Block();
  Asked waiting = system.Ask("waiting");

  system.tiny.door.Drain();
  system.Release();

  EXPECT_EQ(running.exchange->Get().status, 200);
  EXPECT_EQ(waiting.exchange->Get().status, 503);
  EXPECT_EQ(system.Rejected("draining"), 1);
}

}  // namespace
}  // namespace bole
