#include "scheduler_service/door/grpc/method_guard.h"

#include <chrono>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/sha256.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/support/byte_buffer.h"
#include "gtest/gtest.h"
#include "proto/health.pb.h"
#include "scheduler_service/door/identity.h"
#include "scheduler_service/links/share.h"
#include "scheduler_service/scheduler_server.h"
#include "tests/common/tokenizer/tiny_tokenizer.h"
#include "tests/worker_service/model/files.h"

namespace bole {
namespace {

using google::protobuf::DescriptorPool;
using google::protobuf::Message;
using google::protobuf::MessageFactory;
using google::protobuf::ServiceDescriptor;

constexpr char kReflection[] =
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";

// What a service needs, as an operator reads it in the README.
const std::map<std::string, std::optional<Scope>>& NeededScopes() {
  static const auto* const scopes =
      new std::map<std::string, std::optional<Scope>>{
          {"bole.v1.BoleService", Scope::kGenerate},
          {"bole.v1.Admin", Scope::kAdmin},
          {"bole.peer.v1.Peers", Scope::kAdmin},
          {"grpc.health.v1.Health", std::nullopt},
          {"grpc.reflection.v1alpha.ServerReflection", std::nullopt}};
  return *scopes;
}

std::string TokenOf(Scope scope) {
  return absl::StrCat("token-", NameOf(scope));
}

// A scheduler that has every service there is, and a token for each scope.
class MethodGuardTest : public ::testing::Test {
 protected:
  MethodGuardTest() {
    directory_.Write("tokenizer.json", testing::TinyTokenizerJson());
    std::string tokens;
    for (const Scope scope : kScopes) {
      absl::StrAppend(&tokens, Sha256Hex(TokenOf(scope)), " tenant ",
                      NameOf(scope), "\n");
    }
    auto server = SchedulerServer::Start(
        {.models = {"tiny=" + directory_.path()},
         .workers = {"127.0.0.1:1"},
         .share = ParsePlace("1/1").value(),
         .tokens_path = directory_.Write("tokens", tokens)});
    BOLE_CHECK(server.ok());
    server_ = *std::move(server);
    channel_ = grpc::CreateChannel(server_->address().ToString(),
                                   grpc::InsecureChannelCredentials());
  }

  // Sends `request` and takes one answer, of whatever kind the method is.
  grpc::Status Call(const std::string& method, const std::string& token,
                    const std::string& request = "",
                    std::string* response = nullptr) {
    grpc::ClientContext context;
    // A method that was let in may go on and on.
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::seconds(2));
    if (!token.empty()) {
      context.AddMetadata("authorization", "Bearer " + token);
    }
    const grpc::Slice slice(request);
    const grpc::ByteBuffer sent(&slice, 1);
    grpc::ByteBuffer received;
    std::promise<grpc::Status> ended;
    grpc::GenericStub(channel_).UnaryCall(
        &context, method, grpc::StubOptions(), &sent, &received,
        [&](grpc::Status status) { ended.set_value(std::move(status)); });
    grpc::Status status = ended.get_future().get();
    grpc::Slice whole;
    if (response && status.ok() && received.DumpToSingleSlice(&whole).ok()) {
      response->assign(reinterpret_cast<const char*>(whole.begin()),
                       whole.size());
    }
    return status;
  }
  grpc::StatusCode CodeOfCall(const std::string& method,
                              const std::string& token) {
    return Call(method, token).error_code();
  }

  // The services of the server, as it says itself.
  std::set<std::string> ListServices() {
    // The library that serves reflection has its messages, but no header.
    const auto message = [](const char* name) {
      const auto* type =
          DescriptorPool::generated_pool()->FindMessageTypeByName(
              absl::StrCat("grpc.reflection.v1alpha.", name));
      BOLE_CHECK(type != nullptr);
      return std::unique_ptr<Message>(
          MessageFactory::generated_factory()->GetPrototype(type)->New());
    };
    const auto field = [](const Message& of, const char* name) {
      return of.GetDescriptor()->FindFieldByName(name);
    };
    const auto request = message("ServerReflectionRequest");
    request->GetReflection()->SetString(request.get(),
                                        field(*request, "list_services"), "*");
    std::string answer;
    const grpc::Status status = Call(kReflection, TokenOf(Scope::kMetrics),
                                     request->SerializeAsString(), &answer);
    EXPECT_TRUE(status.ok()) << status.error_message();
    const auto response = message("ServerReflectionResponse");
    EXPECT_TRUE(response->ParseFromString(answer));
    const Message& list = response->GetReflection()->GetMessage(
        *response, field(*response, "list_services_response"));
    const auto* services = field(list, "service");
    std::set<std::string> names;
    for (int i = 0; i < list.GetReflection()->FieldSize(list, services); ++i) {
      const Message& service =
          list.GetReflection()->GetRepeatedMessage(list, services, i);
      names.insert(
          service.GetReflection()->GetString(service, field(service, "name")));
    }
    return names;
  }

  // The methods of all of them, and what each needs.
  std::map<std::string, std::optional<Scope>> ListMethods() {
    // gRPC serves it without a descriptor: ours has to be linked.
    BOLE_CHECK(grpc::health::v1::HealthCheckRequest::descriptor() != nullptr);
    std::map<std::string, std::optional<Scope>> methods;
    for (const std::string& name : ListServices()) {
      const ServiceDescriptor* service =
          DescriptorPool::generated_pool()->FindServiceByName(name);
      if (service == nullptr || !NeededScopes().contains(name)) {
        ADD_FAILURE() << "nobody has said what " << name << " needs";
        continue;
      }
      for (int i = 0; i < service->method_count(); ++i) {
        methods[absl::StrCat("/", name, "/", service->method(i)->name())] =
            NeededScopes().at(name);
      }
    }
    return methods;
  }

  const ScopedDirectory directory_;
  std::unique_ptr<SchedulerServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

TEST_F(MethodGuardTest, HasARuleForEveryMethodOfEveryService) {
  const auto methods = ListMethods();

  EXPECT_EQ(ListServices().size(), NeededScopes().size());
  EXPECT_EQ(methods.size(), 15u);
  EXPECT_EQ(methods, (std::map<std::string, std::optional<Scope>>(
                         MethodScopes().begin(), MethodScopes().end())));
}

TEST_F(MethodGuardTest, EveryMethodIsShutWithoutATokenOfItsScope) {
  for (const auto& [method, needed] : ListMethods()) {
    for (const std::string token : {"", "unknown"}) {
      EXPECT_EQ(CodeOfCall(method, token), grpc::StatusCode::UNAUTHENTICATED)
          << method;
    }
    for (const Scope scope : kScopes) {
      const grpc::StatusCode code = CodeOfCall(method, TokenOf(scope));
      if (needed && scope != *needed) {
        EXPECT_EQ(code, grpc::StatusCode::PERMISSION_DENIED)
            << method << " " << NameOf(scope);
      } else {
        EXPECT_NE(code, grpc::StatusCode::PERMISSION_DENIED) << method;
        EXPECT_NE(code, grpc::StatusCode::UNAUTHENTICATED) << method;
      }
    }
  }
}

TEST_F(MethodGuardTest, AMethodWithoutARuleIsShutToEverybody) {
  for (const std::string method : {"/bole.v1.BoleService/Erase", "/x.Y/Z"}) {
    EXPECT_EQ(CodeOfCall(method, ""), grpc::StatusCode::UNAUTHENTICATED);
    for (const Scope scope : kScopes) {
      EXPECT_EQ(CodeOfCall(method, TokenOf(scope)),
                grpc::StatusCode::PERMISSION_DENIED)
          << method;
    }
  }
}

}  // namespace
}  // namespace bole
