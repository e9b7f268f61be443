#include "tests/simulation/number_spoiler.h"

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "grpcpp/impl/server_builder_plugin.h"
#include "grpcpp/server_builder.h"
#include "grpcpp/support/server_interceptor.h"
#include "proto/worker.pb.h"

namespace bole::simulation {
namespace {

using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::InterceptorBatchMethods;
using grpc::experimental::ServerRpcInfo;

// 0: the next number is right.
std::atomic<uint64_t> next_offset = 0;

class Spoiler final : public grpc::experimental::Interceptor {
 public:
  void Intercept(InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(
            InterceptionHookPoints::PRE_SEND_MESSAGE)) {
      Spoil(*methods);
    }
    methods->Proceed();
  }

 private:
  void Spoil(InterceptorBatchMethods& methods) {
    const auto* sent = static_cast<const worker::v1::ExecuteResponse*>(
        methods.GetSendMessage());
    if (sent == nullptr || !sent->has_outcome()) return;
    const uint64_t offset = next_offset.exchange(0);
    if (offset == 0) return;
    spoiled_ = *sent;
    spoiled_.mutable_outcome()->set_sequence(sent->outcome().sequence() +
                                             offset);
    methods.ModifySendMessage(&spoiled_);
  }

  worker::v1::ExecuteResponse spoiled_;  // While it is sent.
};

class SpoilerFactory final
    : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  grpc::experimental::Interceptor* CreateServerInterceptor(
      ServerRpcInfo* info) override {
    const bool is_execute =
        std::string(info->method()) == "/bole.worker.v1.Worker/Execute";
    return is_execute ? new Spoiler() : nullptr;  // The call owns it.
  }
};

class SpoilerPlugin final : public grpc::ServerBuilderPlugin {
 public:
  std::string name() override { return "number_spoiler"; }
  void UpdateServerBuilder(grpc::ServerBuilder* builder) override {
    std::vector<
        std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>>
        creators;
    creators.push_back(std::make_unique<SpoilerFactory>());
    builder->experimental().SetInterceptorCreators(std::move(creators));
  }
  void InitServer(grpc::ServerInitializer*) override {}
  void Finish(grpc::ServerInitializer*) override {}
  void ChangeArguments(const std::string&, void*) override {}
};

}  // namespace

void InstallNumberSpoiler() {
  static const bool installed = [] {
    grpc::ServerBuilder::InternalAddPluginFactory(
        +[]() -> std::unique_ptr<grpc::ServerBuilderPlugin> {
          return std::make_unique<SpoilerPlugin>();
        });
    return true;
  }();
  static_cast<void>(installed);
}

void SpoilNextNumber(uint64_t offset) { next_offset = offset; }

}  // namespace bole::simulation
