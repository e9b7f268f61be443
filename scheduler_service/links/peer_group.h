// Finds the schedulers that share a pool, and checks that they are alive.
#ifndef BOLE_SCHEDULER_SERVICE_LINKS_PEER_GROUP_H_
#define BOLE_SCHEDULER_SERVICE_LINKS_PEER_GROUP_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/mutex.h"
#include "common/net/client_credentials.h"
#include "scheduler_service/links/discovery.h"
#include "scheduler_service/links/peer_client.h"
#include "scheduler_service/links/peer_table.h"

namespace bole {

struct PeerGroupOptions {
  // "HOST:PORT" each. A host may stand for many addresses, now or later; those
  // of this scheduler may be among them.
  std::vector<std::string> names;
  Peer self;
  std::chrono::milliseconds interval{1'000};  // Between two pings.
  // A scheduler that does not answer for this long counts as not alive.
  std::chrono::milliseconds patience{3'000};
  DiscoveryOptions discovery = {};  // Except the name.
  ClientCredentials credentials = {};
  // Returns the metadata "authorization" of pings, and is called each time that
  // they are sent; empty, or null: none.
  std::function<std::string()> authorization = nullptr;
};

// Pings every address at each interval, from Start() to the destructor, whether
// or not this scheduler has workers. A ping times out after an interval.
//
// Thread-safe.
class PeerGroup {
 public:
  using OnError = std::function<void(const absl::Status&)>;

  // INVALID_ARGUMENT if a name is not HOST:PORT. `on_error` is told why a
  // lookup failed, only once while it fails for the same reason.
  static absl::StatusOr<std::unique_ptr<PeerGroup>> Start(
      PeerGroupOptions options, const OnError& on_error);
  ~PeerGroup();

  PeerGroup(const PeerGroup&) = delete;
  PeerGroup& operator=(const PeerGroup&) = delete;

  PeerView view() const;
  // The answer to a ping.
  Peer self() const;
  // A ping has arrived. A scheduler that is not known yet is looked for soon;
  // one that is known and says that it leaves no longer counts as alive, unless
  // it answers otherwise later.
  void Heard(uint64_t instance, bool leaving);

  // Tells all peers that this scheduler leaves, and briefly waits for their
  // answers. Later calls do nothing.
  void Leave();

 private:
  explicit PeerGroup(PeerGroupOptions options);

  void Run();
  // Returns false if the object is being destroyed.
  bool WaitForNext();
  void PingAll(std::chrono::milliseconds timeout);
  void Ping(const std::string& address, const std::string& authorization,
            std::chrono::milliseconds timeout);
  void OnEnd(const std::string& address, const absl::StatusOr<Peer>& answer);

  const PeerGroupOptions options_;

  mutable Mutex mutex_;
  CondVar changed_;
  PeerTable table_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::shared_ptr<PeerClient>> clients_
      ABSL_GUARDED_BY(mutex_);                 // By address.
  int num_pings_ ABSL_GUARDED_BY(mutex_) = 0;  // Under way.
  bool hurry_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  std::thread thread_;
  std::vector<std::unique_ptr<Discovery>> discoveries_;  // Use the rest: last.
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_LINKS_PEER_GROUP_H_
