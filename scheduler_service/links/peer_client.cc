#include "scheduler_service/links/peer_client.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/channel_arguments.h"
#include "proto/grpc_status.h"

namespace bole {
namespace {

constexpr size_t kMaxNameBytes = 128;

// gRPC's own pauses between attempts to connect, which grow to minutes, would
// make a peer that is back look silent.
std::unique_ptr<peer::v1::Peers::Stub> NewStub(
    const std::string& address, std::chrono::milliseconds pause,
    const ClientCredentials& credentials) {
  const int pause_ms = static_cast<int>(pause.count());
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // HTTP proxies are not used.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, pause_ms);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, pause_ms);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, pause_ms);
  return peer::v1::Peers::NewStub(credentials.ChannelTo(address, arguments));
}

absl::StatusOr<Peer> Decode(const peer::v1::PingResponse& message) {
  if (message.instance() == 0) {
    return absl::InvalidArgumentError("instance is 0");
  }
  if (message.name().size() > kMaxNameBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("name has ", message.name().size(), " bytes; allowed are ",
                     kMaxNameBytes));
  }
  return Peer{.instance = message.instance(),
              .started_us = message.started_us(),
              .name = message.name(),
              .models = {message.models().begin(), message.models().end()},
              .leaving = message.leaving()};
}

}  // namespace

struct PeerClient::Call {
  grpc::ClientContext context;
  peer::v1::PingRequest request;
  peer::v1::PingResponse response;
  OnEnd on_end;
};

PeerClient::PeerClient(const std::string& address,
                       std::chrono::milliseconds pause,
                       const ClientCredentials& credentials)
    : stub_(NewStub(address, pause, credentials)) {}

PeerClient::~PeerClient() {
  std::set<std::shared_ptr<Call>> calls;
  {
    MutexLock lock(mutex_);
    calls = calls_;
  }
  for (const auto& call : calls) call->context.TryCancel();
  MutexLock lock(mutex_);
  while (!calls_.empty()) changed_.Wait(mutex_);
}

void PeerClient::Ping(const Message& message, std::chrono::milliseconds timeout,
                      OnEnd on_end) {
  auto call = std::make_shared<Call>();
  call->context.set_deadline(std::chrono::system_clock::now() + timeout);
  call->request.set_instance(message.instance);
  call->request.set_leaving(message.leaving);
  if (!message.authorization.empty()) {
    call->context.AddMetadata("authorization", message.authorization);
  }
  call->on_end = std::move(on_end);
  {
    MutexLock lock(mutex_);
    calls_.insert(call);
  }
  stub_->async()->Ping(
      &call->context, &call->request, &call->response,
      [this, call](const grpc::Status& status) { End(call, status); });
}

void PeerClient::End(const std::shared_ptr<Call>& call,
                     const grpc::Status& status) {
  call->on_end(status.ok() ? Decode(call->response)
                           : absl::StatusOr<Peer>(FromGrpcStatus(status)));
  MutexLock lock(mutex_);
  calls_.erase(call);
  changed_.NotifyAll();
}

}  // namespace bole
