// The connection to one of the schedulers that share a pool.
#ifndef BOLE_SCHEDULER_SERVICE_LINKS_PEER_CLIENT_H_
#define BOLE_SCHEDULER_SERVICE_LINKS_PEER_CLIENT_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/mutex.h"
#include "common/net/client_credentials.h"
#include "grpcpp/support/status.h"
#include "proto/peers.grpc.pb.h"
#include "scheduler_service/links/peer_table.h"

namespace bole {

// Pings the scheduler at one address. Thread-safe.
class PeerClient {
 public:
  // Called by a gRPC thread; must not destroy the client.
  using OnEnd = std::function<void(const absl::StatusOr<Peer>&)>;

  // A connection that fails is tried again after `pause`, however often it
  // failed.
  PeerClient(const std::string& address, std::chrono::milliseconds pause,
             const ClientCredentials& credentials = {});
  ~PeerClient();  // Cancels what is under way, and waits until it has ended.

  PeerClient(const PeerClient&) = delete;
  PeerClient& operator=(const PeerClient&) = delete;

  struct Message {
    uint64_t instance = 0;           // The sender's instance.
    bool leaving = false;            // The sender leaves.
    std::string authorization = {};  // The metadata of that name, if any.
  };

  // Returns at once. `on_end` is called with the answer, or within `timeout`
  // with an error.
  void Ping(const Message& message, std::chrono::milliseconds timeout,
            OnEnd on_end);

 private:
  struct Call;

  void End(const std::shared_ptr<Call>& call, const grpc::Status& status);

  const std::unique_ptr<peer::v1::Peers::Stub> stub_;
  Mutex mutex_;
  CondVar changed_;
  std::set<std::shared_ptr<Call>> calls_ ABSL_GUARDED_BY(mutex_);  // Under way.
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_LINKS_PEER_CLIENT_H_
