#include "common/net/handled_calls.h"

#include <utility>

#include "absl/status/status.h"
#include "common/net/metric_families.h"

namespace bole {

using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::Interceptor;
using grpc::experimental::InterceptorBatchMethods;
using grpc::experimental::ServerInterceptorFactoryInterface;
using grpc::experimental::ServerRpcInfo;

// Counts one call when its status is sent. gRPC owns it until the call ends.
class HandledCalls::Counter final : public Interceptor {
 public:
  Counter(HandledCalls& calls, std::string method)
      : calls_(calls), method_(std::move(method)) {}

  void Intercept(InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(
            InterceptionHookPoints::PRE_SEND_STATUS)) {
      calls_.Count(method_, methods->GetSendStatus().error_code());
    }
    methods->Proceed();
  }

 private:
  HandledCalls& calls_;
  const std::string method_;
};

class HandledCalls::Factory final : public ServerInterceptorFactoryInterface {
 public:
  explicit Factory(HandledCalls& calls) : calls_(calls) {}

  Interceptor* CreateServerInterceptor(ServerRpcInfo* info) override {
    std::string method = info->method();
    if (calls_.streams_.contains(method)) return nullptr;
    return new Counter(calls_, std::move(method));
  }

 private:
  HandledCalls& calls_;
};

HandledCalls::HandledCalls(prometheus::Registry& registry,
                           std::set<std::string> streams)
    : family_(Counters(registry, "bole_grpc_server_handled_total",
                       "Calls over gRPC that have ended, by method and code; "
                       "without those that were refused for their token.")),
      streams_(std::move(streams)) {
  for (const std::string& method : streams_) {
    SeriesOf(method, grpc::StatusCode::OK);
  }
}

prometheus::Counter& HandledCalls::SeriesOf(std::string_view method,
                                            grpc::StatusCode code) {
  if (method.starts_with('/')) method.remove_prefix(1);
  return family_.Add({{"method", std::string(method)},
                      {"code", absl::StatusCodeToString(
                                   static_cast<absl::StatusCode>(code))}});
}

void HandledCalls::Count(std::string_view method, grpc::StatusCode code) {
  SeriesOf(method, code).Increment();
}

std::unique_ptr<ServerInterceptorFactoryInterface>
HandledCalls::Interceptors() {
  return std::make_unique<Factory>(*this);
}

}  // namespace bole
