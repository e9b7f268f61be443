#include "scheduler_service/links/peer_group.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "grpcpp/client_context.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/support/channel_arguments.h"
#include "proto/grpc_status.h"

namespace bole {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// However many strangers call.
constexpr milliseconds kLeastInterval(50);
// Those that live answer a farewell within this time.
constexpr milliseconds kFarewell(500);

constexpr size_t kMaxNameBytes = 128;

// gRPC's own pauses between attempts to connect, which grow to minutes, would
// make a peer look silent that is back.
std::shared_ptr<peer::v1::Peers::Stub> NewStub(const std::string& address,
                                               milliseconds interval) {
  const int pause = static_cast<int>(interval.count());
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // A proxy for the web is not asked.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, pause / 2);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, pause);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, pause / 2);
  return peer::v1::Peers::NewStub(grpc::CreateCustomChannel(
      address, grpc::InsecureChannelCredentials(), arguments));
}

absl::StatusOr<Peer> Decode(const peer::v1::PingResponse& message) {
  if (message.instance() == 0) {
    return absl::InvalidArgumentError("instance is 0");
  }
  if (message.name().size() > kMaxNameBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("name has ", message.name().size(), " bytes"));
  }
  return Peer{.instance = message.instance(),
              .started_us = message.started_us(),
              .name = message.name(),
              .models = {message.models().begin(), message.models().end()},
              .leaving = message.leaving()};
}

}  // namespace

struct PeerGroup::Call {
  std::string address;
  std::shared_ptr<peer::v1::Peers::Stub> stub;
  grpc::ClientContext context;
  peer::v1::PingRequest request;
  peer::v1::PingResponse response;
};

absl::StatusOr<std::unique_ptr<PeerGroup>> PeerGroup::Start(
    PeerGroupOptions options, const OnError& on_error) {
  std::unique_ptr<PeerGroup> group(new PeerGroup(std::move(options)));
  for (const std::string& name : group->options_.names) {
    DiscoveryOptions discovery = group->options_.discovery;
    discovery.name = name;
    BOLE_ASSIGN_OR_RETURN(
        auto started,
        Discovery::Start(
            std::move(discovery),
            [group = group.get(), name](const std::vector<std::string>& found) {
              MutexLock lock(group->mutex_);
              group->table_.SetAddresses(name, found);
              group->hurry_ = true;
              group->changed_.NotifyAll();
            },
            [on_error, last = std::string()](const absl::Status& why) mutable {
              if (std::exchange(last, why.ToString()) != last) on_error(why);
            }));
    group->discoveries_.push_back(std::move(started));
  }
  return group;
}

PeerGroup::PeerGroup(PeerGroupOptions options)
    : options_(std::move(options)),
      table_(options_.self, options_.names, options_.patience,
             steady_clock::now()),
      thread_([this] { Run(); }) {}

PeerGroup::~PeerGroup() {
  discoveries_.clear();
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
  MutexLock lock(mutex_);
  for (Call* call : calls_) call->context.TryCancel();
  while (!calls_.empty()) changed_.Wait(mutex_);
}

void PeerGroup::Run() {
  while (WaitForNext()) PingAll(options_.interval);
}

bool PeerGroup::WaitForNext() {
  const auto last = steady_clock::now();
  MutexLock lock(mutex_);
  while (!stopping_) {
    const auto next =
        last + (hurry_ ? std::min(kLeastInterval, options_.interval)
                       : options_.interval);
    if (steady_clock::now() >= next) break;
    changed_.WaitUntil(mutex_, next);
  }
  hurry_ = false;
  return !stopping_;
}

void PeerGroup::PingAll(milliseconds timeout) {
  std::vector<std::string> addresses;
  {
    MutexLock lock(mutex_);
    addresses = table_.addresses(steady_clock::now());
    std::erase_if(stubs_, [&](const auto& stub) {
      return !std::binary_search(addresses.begin(), addresses.end(),
                                 stub.first);
    });
  }
  for (const std::string& address : addresses) Ping(address, timeout);
}

void PeerGroup::Ping(const std::string& address, milliseconds timeout) {
  auto call = std::make_shared<Call>();
  call->address = address;
  call->context.set_deadline(std::chrono::system_clock::now() + timeout);
  {
    MutexLock lock(mutex_);
    if (stopping_) return;
    std::shared_ptr<peer::v1::Peers::Stub>& stub = stubs_[address];
    if (stub == nullptr) stub = NewStub(address, options_.interval);
    call->stub = stub;
    call->request.set_instance(table_.self().instance);
    call->request.set_leaving(table_.self().leaving);
    calls_.insert(call.get());
  }
  call->stub->async()->Ping(
      &call->context, &call->request, &call->response,
      [this, call](const grpc::Status& status) {
        OnEnd(*call, status.ok() ? absl::OkStatus() : FromGrpcStatus(status));
      });
}

void PeerGroup::OnEnd(Call& call, const absl::Status& status) {
  const absl::StatusOr<Peer> peer =
      status.ok() ? Decode(call.response) : absl::StatusOr<Peer>(status);
  MutexLock lock(mutex_);
  if (peer.ok()) {
    table_.Answered(call.address, *peer, steady_clock::now());
  } else {
    table_.Failed(call.address);
  }
  calls_.erase(&call);
  changed_.NotifyAll();
}

PeerView PeerGroup::view() const {
  MutexLock lock(mutex_);
  return table_.View(steady_clock::now());
}

Peer PeerGroup::self() const {
  MutexLock lock(mutex_);
  return table_.self();
}

void PeerGroup::Heard(uint64_t instance, bool leaving) {
  MutexLock lock(mutex_);
  if (instance == table_.self().instance) return;
  if (leaving) {
    table_.Left(instance);
  } else if (!table_.IsLiving(instance, steady_clock::now())) {
    hurry_ = true;
    changed_.NotifyAll();
  }
}

void PeerGroup::Leave() {
  {
    MutexLock lock(mutex_);
    if (table_.self().leaving) return;
    table_.LeaveSelf();
  }
  const auto end = steady_clock::now() + kFarewell;
  PingAll(kFarewell);
  MutexLock lock(mutex_);
  while (!calls_.empty() && changed_.WaitUntil(mutex_, end)) continue;
}

}  // namespace bole
