#include "common/net/service_host.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/resource_quota.h"
#include "grpcpp/server_builder.h"
#include "grpcpp/support/server_interceptor.h"

namespace bole {
namespace {

// Reflection is served by threads that its calls hold while they are open; ours
// are on the callback API and take none of these.
constexpr int kMaxReflectionThreads = 8;

// Once per process, before the first server.
void EnableHealthAndReflection() {
  static const bool enabled = [] {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
    return true;
  }();
  static_cast<void>(enabled);
}

void SetBounds(const ServiceHostOptions& options,
               grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(static_cast<int>(options.max_message_bytes));
  builder.SetMaxSendMessageSize(-1);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE,
                             static_cast<int>(options.max_metadata_bytes));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                             options.max_calls_per_connection);
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 1);
  grpc::ResourceQuota quota("bole");
  quota.SetMaxThreads(kMaxReflectionThreads);
  builder.SetResourceQuota(quota);
}

// The server pings a connection that is silent, and closes one whose client
// pings more often than every 10 s.
void SetKeepalive(grpc::ServerBuilder& builder) {
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 60'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(
      GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 10'000);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 2);
}

void CountCalls(HandledCalls& handled, grpc::ServerBuilder& builder) {
  std::vector<
      std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>>
      creators;
  creators.push_back(handled.Interceptors());
  builder.experimental().SetInterceptorCreators(std::move(creators));
}

// Reflection is there too, as on every server of the process.
grpc::Status AllowHealth(std::string_view method, std::string_view) {
  if (method.starts_with("/grpc.health.v1.Health/")) return grpc::Status::OK;
  return {grpc::StatusCode::PERMISSION_DENIED,
          "this address has grpc.health.v1 alone"};
}

}  // namespace

absl::StatusOr<std::unique_ptr<ServiceHost>> ServiceHost::Start(
    const ServiceHostOptions& options,
    std::span<grpc::Service* const> services) {
  BOLE_ASSIGN_OR_RETURN(ListenAddress address,
                        ParseListenAddress(options.address, options.reach));
  BOLE_ASSIGN_OR_RETURN(
      const std::shared_ptr<grpc::ServerCredentials> credentials,
      MakeServerCredentials(options.tls, options.guard));
  EnableHealthAndReflection();
  grpc::ServerBuilder builder;
  SetBounds(options, builder);
  SetKeepalive(builder);
  if (options.handled != nullptr) CountCalls(*options.handled, builder);
  // With it two servers could share a port, and clients would reach either.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  int port = 0;
  builder.AddListeningPort(address.ToString(), credentials, &port);
  for (grpc::Service* service : services) builder.RegisterService(service);

  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) {
    return absl::UnavailableError(absl::StrCat(
        "cannot listen on ", address.ToString(), ": the port may be in use"));
  }
  address.port = port;
  std::unique_ptr<ServiceHost> host(
      new ServiceHost(std::move(server), std::move(address)));
  if (!options.health_address.empty()) {
    BOLE_ASSIGN_OR_RETURN(host->health_,
                          Start({.address = options.health_address,
                                 .reach = Reach::kAnywhere,
                                 .guard = &AllowHealth},
                                {}));
  }
  return host;
}

ServiceHost::ServiceHost(std::unique_ptr<grpc::Server> server,
                         ListenAddress address)
    : server_(std::move(server)), address_(std::move(address)) {}

ServiceHost::~ServiceHost() { Shutdown(std::chrono::steady_clock::now()); }

void ServiceHost::SetServing(const std::string& service, bool serving) {
  server_->GetHealthCheckService()->SetServingStatus(service, serving);
  if (health_) health_->SetServing(service, serving);
}

int ServiceHost::health_port() const {
  return health_ ? health_->address().port : 0;
}

void ServiceHost::Shutdown(std::chrono::steady_clock::time_point deadline) {
  using std::chrono::microseconds;
  server_->GetHealthCheckService()->Shutdown();
  if (health_) health_->server_->GetHealthCheckService()->Shutdown();
  // gRPC counts by the system's clock, which cannot hold every deadline.
  const auto left = std::chrono::duration_cast<microseconds>(
      deadline - std::chrono::steady_clock::now());
  const microseconds longest = std::chrono::hours(24);
  server_->Shutdown(std::chrono::system_clock::now() +
                    std::clamp(left, microseconds(0), longest));
  // It says so until the end.
  if (health_) health_->Shutdown(std::chrono::steady_clock::now());
}

}  // namespace bole
