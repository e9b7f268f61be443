#include "scheduler_service/door/grpc/text_call.h"

#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "clients/sdk/call_error.h"
#include "common/check.h"
#include "common/mutex.h"
#include "common/net/service_host.h"
#include "grpcpp/client_context.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "gtest/gtest.h"
#include "proto/bole.grpc.pb.h"
#include "tests/scheduler_service/door/tiny_door.h"
#include "tests/scheduler_service/scrape.h"

namespace bole {
namespace {

using std::chrono::steady_clock;

// Answers Tokenize with a TextCall that says how often it ran. A call whose
// text is "block" does not return before Release().
class TextService final : public v1::BoleService::CallbackService {
 public:
  explicit TextService(size_t max_waiting)
      : tiny_({.max_long_messages = max_waiting}) {}

  grpc::ServerUnaryReactor* Tokenize(grpc::CallbackServerContext* /*context*/,
                                     const v1::TokenizeRequest* request,
                                     v1::TokenizeResponse* response) override {
    return TextCall::Start(tiny_.door,
                           [=, this] { return Run(*request, *response); });
  }

  void Release() {
    MutexLock lock(mutex_);
    released_ = true;
    changed_.NotifyAll();
  }
  void AwaitRuns(int num) {
    MutexLock lock(mutex_);
    while (num_runs_ < num) changed_.Wait(mutex_);
  }
  int num_runs() const {
    MutexLock lock(mutex_);
    return num_runs_;
  }
  // Looks every millisecond: nothing announces the change.
  void AwaitWaiting(size_t num) {
    const auto end = steady_clock::now() + std::chrono::seconds(20);
    while (tiny_.door.long_texts().num_waiting() != num) {
      ASSERT_LT(steady_clock::now(), end);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  void Drain() { tiny_.door.Drain(); }
  double Rejected(const std::string& reason) {
    return testing::Scrape(tiny_.registry)
        .at("bole_text_calls_rejected_total{reason=\"" + reason + "\"}");
  }

 private:
  absl::Status Run(const v1::TokenizeRequest& request,
                   v1::TokenizeResponse& response) {
    MutexLock lock(mutex_);
    ++num_runs_;
    changed_.NotifyAll();
    while (request.text() == "block" && !released_) changed_.Wait(mutex_);
    response.set_text(request.text());
    return absl::OkStatus();
  }

  mutable Mutex mutex_;
  CondVar changed_;
  int num_runs_ ABSL_GUARDED_BY(mutex_) = 0;
  bool released_ ABSL_GUARDED_BY(mutex_) = false;
  testing::TinyDoor tiny_;
};

class Client {
 public:
  explicit Client(const ServiceHost& host)
      : stub_(v1::BoleService::NewStub(grpc::CreateChannel(
            host.address().ToString(), grpc::InsecureChannelCredentials()))) {}

  // A call on a thread of its own.
  std::future<grpc::Status> Start(const std::string& text,
                                  grpc::ClientContext& context) {
    return std::async(std::launch::async, [=, this, &context] {
      v1::TokenizeRequest request;
      request.set_text(text);
      v1::TokenizeResponse response;
      grpc::Status status = stub_->Tokenize(&context, request, &response);
      EXPECT_EQ(response.text(), status.ok() ? text : "");
      return status;
    });
  }

 private:
  const std::unique_ptr<v1::BoleService::Stub> stub_;
};

struct TextSystem {
  explicit TextSystem(size_t max_waiting) : service(max_waiting) {
    grpc::Service* services[] = {&service};
    auto started = ServiceHost::Start({}, services);
    BOLE_CHECK(started.ok());
    host = *std::move(started);
    client.emplace(*host);
  }

  TextService service;
  std::unique_ptr<ServiceHost> host;
  std::optional<Client> client;
};

TEST(TextCallTest, ACallThatIsCancelledWhileItWaitsNeverRuns) {
  TextSystem system(/*max_waiting=*/1);
  grpc::ClientContext contexts[3];
  auto running = system.client->Start("block", contexts[0]);
  system.service.AwaitRuns(1);
  auto cancelled = system.client->Start("cancelled", contexts[1]);
  system.service.AwaitWaiting(1);

  contexts[1].TryCancel();

  EXPECT_EQ(cancelled.get().error_code(), grpc::StatusCode::CANCELLED);
  // Its place is free while the first one still runs.
  system.service.AwaitWaiting(0);
  auto next = system.client->Start("next", contexts[2]);
  system.service.AwaitWaiting(1);
  system.service.Release();
  EXPECT_TRUE(running.get().ok());
  EXPECT_TRUE(next.get().ok());
  EXPECT_EQ(system.service.num_runs(), 2);
  EXPECT_EQ(system.service.Rejected("cancelled"), 1);
}

TEST(TextCallTest, TooManyThatWaitAreToldToComeAgain) {
  TextSystem system(/*max_waiting=*/1);
  grpc::ClientContext contexts[3];
  auto running = system.client->Start("block", contexts[0]);
  system.service.AwaitRuns(1);
  auto waiting = system.client->Start("waiting", contexts[1]);
  system.service.AwaitWaiting(1);

  const grpc::Status refused = system.client->Start("third", contexts[2]).get();

  EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(refused.error_message(), "long_messages: 1, of at most 1");
  const CallError error = ReadError(refused);
  EXPECT_EQ(error.reason, "LONG_MESSAGES");
  EXPECT_EQ(error.metadata.at("max"), "1");
  EXPECT_TRUE(error.retry_after.has_value());
  EXPECT_EQ(system.service.Rejected("long_messages"), 1);
  system.service.Release();
  EXPECT_TRUE(running.get().ok());
  EXPECT_TRUE(waiting.get().ok());
}

TEST(TextCallTest, ACallWhoseTurnComesWhenTheDoorDrainsNeverRuns) {
  TextSystem system(/*max_waiting=*/1);
  grpc::ClientContext contexts[2];
  auto running = system.client->Start("block", contexts[0]);
  system.service.AwaitRuns(1);
  auto waiting = system.client->Start("waiting", contexts[1]);
  system.service.AwaitWaiting(1);

  system.service.Drain();
  system.service.Release();

  EXPECT_TRUE(running.get().ok());
  EXPECT_EQ(waiting.get().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(system.service.num_runs(), 1);
  EXPECT_EQ(system.service.Rejected("draining"), 1);
}

TEST(TextCallTest, ACallThatIsCancelledWhileItRunsEndsQuietly) {
  TextSystem system(/*max_waiting=*/1);
  grpc::ClientContext context;
  auto running = system.client->Start("block", context);
  system.service.AwaitRuns(1);

  context.TryCancel();

  EXPECT_EQ(running.get().error_code(), grpc::StatusCode::CANCELLED);
  system.service.Release();
  EXPECT_EQ(system.service.Rejected("cancelled"), 0);
}

}  // namespace
}  // namespace bole
