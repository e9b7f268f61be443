#include "scheduler_service/links/peer_group.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/status_macros.h"

namespace bole {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// The shortest interval, however many unknown schedulers send pings.
constexpr milliseconds kLeastInterval(50);
// Live schedulers answer a farewell within this time.
constexpr milliseconds kFarewell(500);

}  // namespace

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
  // Clients are destroyed without the mutex: that waits for answers, which take
  // it.
  std::map<std::string, std::shared_ptr<PeerClient>> clients;
  MutexLock lock(mutex_);
  clients.swap(clients_);
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
  std::vector<std::shared_ptr<PeerClient>> ended;  // Destroyed after the lock.
  std::vector<std::string> addresses;
  {
    MutexLock lock(mutex_);
    addresses = table_.addresses(steady_clock::now());
    for (auto at = clients_.begin(); at != clients_.end();) {
      const bool is_asked =
          std::binary_search(addresses.begin(), addresses.end(), at->first);
      if (!is_asked) ended.push_back(std::move(at->second));
      at = is_asked ? std::next(at) : clients_.erase(at);
    }
  }
  const std::string authorization =
      options_.authorization ? options_.authorization() : "";
  for (const std::string& address : addresses) {
    Ping(address, authorization, timeout);
  }
}

void PeerGroup::Ping(const std::string& address,
                     const std::string& authorization, milliseconds timeout) {
  std::shared_ptr<PeerClient> client;
  Peer self;
  {
    MutexLock lock(mutex_);
    std::shared_ptr<PeerClient>& of = clients_[address];
    if (of == nullptr) {
      of = std::make_shared<PeerClient>(address, options_.interval / 2,
                                        options_.credentials);
    }
    client = of;
    self = table_.self();
    ++num_pings_;
  }
  client->Ping({.instance = self.instance,
                .leaving = self.leaving,
                .authorization = authorization},
               timeout, [this, address](const absl::StatusOr<Peer>& answer) {
                 OnEnd(address, answer);
               });
}

void PeerGroup::OnEnd(const std::string& address,
                      const absl::StatusOr<Peer>& answer) {
  MutexLock lock(mutex_);
  if (answer.ok()) {
    table_.Answered(address, *answer, steady_clock::now());
  } else {
    table_.Failed(address);
  }
  --num_pings_;
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
  while (num_pings_ > 0 && changed_.WaitUntil(mutex_, end)) continue;
}

}  // namespace bole
