#include "common/net/handled_calls.h"

#include <memory>
#include <string>

#include "common/net/service_host.h"
#include "grpcpp/client_context.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "gtest/gtest.h"
#include "prometheus/registry.h"
#include "prometheus/text_serializer.h"
#include "proto/bole.grpc.pb.h"
#include "proto/health.grpc.pb.h"

namespace bole {
namespace {

constexpr char kStream[] = "/bole.v1.BoleService/Generate";

// Every method is UNIMPLEMENTED.
class NoService final : public v1::BoleService::CallbackService {};

class HandledCallsTest : public ::testing::Test {
 protected:
  HandledCallsTest() {
    grpc::Service* services[] = {&service_};
    auto host = ServiceHost::Start({.handled = &handled_}, services);
    EXPECT_TRUE(host.ok()) << host.status();
    host_ = *std::move(host);
    channel_ = grpc::CreateChannel(host_->address().ToString(),
                                   grpc::InsecureChannelCredentials());
  }

  grpc::StatusCode Check(const std::string& service) {
    grpc::ClientContext context;
    grpc::health::v1::HealthCheckRequest request;
    request.set_service(service);
    grpc::health::v1::HealthCheckResponse response;
    return grpc::health::v1::Health::NewStub(channel_)
        ->Check(&context, request, &response)
        .error_code();
  }
  bool Has(const std::string& series) const {
    const std::string page =
        prometheus::TextSerializer().Serialize(registry_.Collect());
    return page.find("bole_grpc_server_handled_total{" + series + "\n") !=
           std::string::npos;
  }

  prometheus::Registry registry_;
  HandledCalls handled_{registry_, {kStream}};
  NoService service_;
  std::unique_ptr<ServiceHost> host_;
  std::shared_ptr<grpc::Channel> channel_;
};

TEST_F(HandledCallsTest, CallsAreCountedByMethodAndCode) {
  EXPECT_EQ(Check(""), grpc::StatusCode::OK);
  EXPECT_EQ(Check(""), grpc::StatusCode::OK);
  EXPECT_EQ(Check("nobody"), grpc::StatusCode::NOT_FOUND);
  grpc::ClientContext context;
  v1::TokenizeResponse response;
  EXPECT_EQ(v1::BoleService::NewStub(channel_)
                ->Tokenize(&context, {}, &response)
                .error_code(),
            grpc::StatusCode::UNIMPLEMENTED);

  EXPECT_TRUE(Has("code=\"OK\",method=\"grpc.health.v1.Health/Check\"} 2"));
  EXPECT_TRUE(
      Has("code=\"NOT_FOUND\",method=\"grpc.health.v1.Health/Check\"} 1"));
  EXPECT_TRUE(
      Has("code=\"UNIMPLEMENTED\",method=\"bole.v1.BoleService/Tokenize\"} 1"));
}

TEST_F(HandledCallsTest, StreamsAreCountedByThoseWhoEndThem) {
  EXPECT_TRUE(Has("code=\"OK\",method=\"bole.v1.BoleService/Generate\"} 0"));
  grpc::ClientContext context;
  v1::GenerateResponse response;
  auto stream = v1::BoleService::NewStub(channel_)->Generate(&context, {});
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_FALSE(
      Has("code=\"UNIMPLEMENTED\",method=\"bole.v1.BoleService/Generate\"} 1"));

  handled_.Count(kStream, grpc::StatusCode::CANCELLED);

  EXPECT_TRUE(
      Has("code=\"CANCELLED\",method=\"bole.v1.BoleService/Generate\"} 1"));
}

}  // namespace
}  // namespace bole
