#include "common/net/service_host.h"

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/support/byte_buffer.h"
#include "gtest/gtest.h"
#include "proto/bole.grpc.pb.h"
#include "proto/health.grpc.pb.h"

namespace bole {
namespace {

using Health = grpc::health::v1::Health;
using HealthResponse = grpc::health::v1::HealthCheckResponse;
using std::chrono::seconds;
using std::chrono::steady_clock;

// A call that ends at once, or is held until it is cancelled.
class HeldCall : public grpc::ServerUnaryReactor {
 public:
  explicit HeldCall(bool hold) {
    if (!hold) Finish(grpc::Status::OK);
  }
  void OnCancel() override { Finish(grpc::Status::CANCELLED); }
  void OnDone() override { delete this; }
};

class EchoService : public v1::BoleService::CallbackService {
 public:
  grpc::ServerUnaryReactor* Detokenize(
      grpc::CallbackServerContext*, const v1::DetokenizeRequest* request,
      v1::DetokenizeResponse* response) override {
    response->set_text(std::to_string(request->ids_size()));
    if (request->skip_special_tokens()) arrived_.set_value();
    return new HeldCall(/*hold=*/request->skip_special_tokens());
  }

  // Waits for the one call that is held.
  void AwaitHeldCall() { arrived_.get_future().wait(); }

 private:
  std::promise<void> arrived_;
};

absl::StatusOr<std::unique_ptr<ServiceHost>> StartWith(
    EchoService& service, const ServiceHostOptions& options = {}) {
  const std::vector<grpc::Service*> services = {&service};
  return ServiceHost::Start(options, services);
}

std::shared_ptr<grpc::Channel> ChannelTo(const ServiceHost& host) {
  return grpc::CreateChannel(host.address().ToString(),
                             grpc::InsecureChannelCredentials());
}

grpc::Status Call(const ServiceHost& host, int num_ids, bool hold = false) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + seconds(20));
  v1::DetokenizeRequest request;
  for (int i = 0; i < num_ids; ++i) request.add_ids(1);
  request.set_skip_special_tokens(hold);
  v1::DetokenizeResponse response;
  grpc::Status status = v1::BoleService::NewStub(ChannelTo(host))
                            ->Detokenize(&context, request, &response);
  if (status.ok()) {
    EXPECT_EQ(response.text(), std::to_string(num_ids));
  }
  return status;
}

struct HealthAnswer {
  grpc::StatusCode code;
  HealthResponse::ServingStatus serving;
};

HealthAnswer CheckHealth(const std::shared_ptr<grpc::Channel>& channel,
                         const std::string& service) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + seconds(20));
  grpc::health::v1::HealthCheckRequest request;
  request.set_service(service);
  HealthResponse response;
  const grpc::Status status =
      Health::NewStub(channel)->Check(&context, request, &response);
  return {status.error_code(), response.status()};
}

HealthAnswer CheckHealth(const ServiceHost& host, const std::string& service) {
  return CheckHealth(ChannelTo(host), service);
}

// The status code of a call of any method, with an empty message.
grpc::StatusCode CodeOfCall(const std::shared_ptr<grpc::Channel>& channel,
                            const std::string& method) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + seconds(20));
  const grpc::Slice empty("");
  const grpc::ByteBuffer request(&empty, 1);
  grpc::ByteBuffer response;
  std::promise<grpc::StatusCode> ended;
  grpc::GenericStub(channel).UnaryCall(&context, method, grpc::StubOptions(),
                                       &request, &response,
                                       [&](const grpc::Status& status) {
                                         ended.set_value(status.error_code());
                                       });
  return ended.get_future().get();
}

TEST(ServiceHostTest, ServesOnThePortThatItReports) {
  EchoService service;
  const auto host = StartWith(service);

  ASSERT_TRUE(host.ok()) << host.status();
  EXPECT_GT((*host)->address().port, 0);
  EXPECT_TRUE(Call(**host, 3).ok());
}

TEST(ServiceHostTest, ATakenPortIsAnErrorThatNamesTheAddress) {
  EchoService service;
  const auto first = StartWith(service);
  ASSERT_TRUE(first.ok()) << first.status();
  const std::string address = (*first)->address().ToString();

  EchoService other;
  const auto second = StartWith(other, {.address = address});

  ASSERT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(second.status().message().find(address), absl::string_view::npos);
  EXPECT_TRUE(Call(**first, 1).ok());
}

TEST(ServiceHostTest, ListensOnLoopbackAloneUnlessAllowed) {
  EchoService service;

  const auto refused = StartWith(service, {.address = "0.0.0.0:0"});
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kPermissionDenied);

  const auto allowed =
      StartWith(service, {.address = "0.0.0.0:0", .reach = Reach::kAnywhere});
  EXPECT_TRUE(allowed.ok()) << allowed.status();
}

TEST(ServiceHostTest, HealthSaysWhatItWasTold) {
  EchoService service;
  const auto host = StartWith(service);
  ASSERT_TRUE(host.ok()) << host.status();

  EXPECT_EQ(CheckHealth(**host, "").serving, HealthResponse::SERVING);
  EXPECT_EQ(CheckHealth(**host, "bole.v1.BoleService").code,
            grpc::StatusCode::NOT_FOUND);

  (*host)->SetServing("bole.v1.BoleService", true);
  EXPECT_EQ(CheckHealth(**host, "bole.v1.BoleService").serving,
            HealthResponse::SERVING);

  (*host)->SetServing("bole.v1.BoleService", false);
  EXPECT_EQ(CheckHealth(**host, "bole.v1.BoleService").serving,
            HealthResponse::NOT_SERVING);
  EXPECT_EQ(CheckHealth(**host, "").serving, HealthResponse::SERVING);
}

TEST(ServiceHostTest, AWatchSeesTheChange) {
  EchoService service;
  const auto host = StartWith(service);
  ASSERT_TRUE(host.ok()) << host.status();
  (*host)->SetServing("x", false);
  const auto stub = Health::NewStub(ChannelTo(**host));
  grpc::ClientContext context;
  grpc::health::v1::HealthCheckRequest request;
  request.set_service("x");
  const auto reader = stub->Watch(&context, request);
  HealthResponse response;
  ASSERT_TRUE(reader->Read(&response));
  EXPECT_EQ(response.status(), HealthResponse::NOT_SERVING);

  (*host)->SetServing("x", true);

  ASSERT_TRUE(reader->Read(&response));
  EXPECT_EQ(response.status(), HealthResponse::SERVING);
  context.TryCancel();
  reader->Finish();
}

TEST(ServiceHostTest, HealthAloneIsServedToEverybodyWhereItIsAskedFor) {
  EchoService service;
  const auto host =
      StartWith(service, {.guard =
                              [](std::string_view, std::string_view) {
                                return grpc::Status(
                                    grpc::StatusCode::UNAUTHENTICATED, "");
                              },
                          .health_address = "127.0.0.1:0"});
  ASSERT_TRUE(host.ok()) << host.status();
  ASSERT_GT((*host)->health_port(), 0);
  const auto channel =
      grpc::CreateChannel("127.0.0.1:" + std::to_string((*host)->health_port()),
                          grpc::InsecureChannelCredentials());
  const auto check = [&](const std::string& asked) {
    return CheckHealth(channel, asked);
  };

  EXPECT_EQ(CheckHealth(**host, "").code, grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(check("").serving, HealthResponse::SERVING);
  (*host)->SetServing("x", true);
  EXPECT_EQ(check("x").serving, HealthResponse::SERVING);
  (*host)->SetServing("x", false);
  EXPECT_EQ(check("x").serving, HealthResponse::NOT_SERVING);
  for (const std::string method :
       {"/bole.v1.BoleService/Detokenize",
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"}) {
    EXPECT_EQ(CodeOfCall(channel, method), grpc::StatusCode::PERMISSION_DENIED);
  }
  EXPECT_EQ((*StartWith(service))->health_port(), 0);
}

TEST(ServiceHostTest, AMessageThatIsTooLongIsRefused) {
  EchoService service;
  const auto host = StartWith(service, {.max_message_bytes = 1000});
  ASSERT_TRUE(host.ok()) << host.status();

  EXPECT_TRUE(Call(**host, 900).ok());
  EXPECT_EQ(Call(**host, 1100).error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
}

TEST(ServiceHostTest, ShutdownCancelsWhatHasNotEndedByTheDeadline) {
  EchoService service;
  const auto host = StartWith(service);
  ASSERT_TRUE(host.ok()) << host.status();
  ASSERT_TRUE(Call(**host, 1).ok());
  grpc::Status held;
  std::thread caller([&] { held = Call(**host, 1, /*hold=*/true); });
  service.AwaitHeldCall();

  const auto start = steady_clock::now();
  (*host)->Shutdown(start + std::chrono::milliseconds(100));

  caller.join();
  EXPECT_LT(steady_clock::now() - start, seconds(10));
  EXPECT_FALSE(held.ok());
  EXPECT_EQ(Call(**host, 1).error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST(ServiceHostTest, ShutdownWithoutCallsDoesNotWaitForADistantDeadline) {
  EchoService service;
  const auto host = StartWith(service);
  ASSERT_TRUE(host.ok()) << host.status();
  ASSERT_TRUE(Call(**host, 1).ok());

  const auto start = steady_clock::now();
  (*host)->Shutdown(steady_clock::time_point::max());

  EXPECT_LT(steady_clock::now() - start, seconds(10));
}

}  // namespace
}  // namespace bole
