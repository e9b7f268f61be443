// Answers the schedulers with which this one shares workers.
#ifndef BOLE_SCHEDULER_SERVICE_LINKS_PEERS_SERVICE_H_
#define BOLE_SCHEDULER_SERVICE_LINKS_PEERS_SERVICE_H_

#include <functional>

#include "absl/base/thread_annotations.h"
#include "common/mutex.h"
#include "proto/peers.grpc.pb.h"
#include "scheduler_service/links/peer_group.h"
#include "scheduler_service/links/peer_table.h"
#include "scheduler_service/links/share.h"

namespace bole {

// Answers from Open() to Close(); before and after that its calls are
// UNAVAILABLE. Thread-safe.
class PeersService final : public peer::v1::Peers::CallbackService {
 public:
  struct Source {
    PeerGroup* peers = nullptr;  // Null: the share is fixed.
    std::function<PoolShares()> shares;
  };

  // What `source` uses must live until Close() has returned.
  void Open(Source source);
  void Close();

  grpc::ServerUnaryReactor* Ping(grpc::CallbackServerContext* context,
                                 const peer::v1::PingRequest* request,
                                 peer::v1::PingResponse* response) override;
  grpc::ServerUnaryReactor* GetShares(
      grpc::CallbackServerContext* context,
      const peer::v1::GetSharesRequest* request,
      peer::v1::GetSharesResponse* response) override;

 private:
  grpc::Status Answer(const peer::v1::PingRequest& request,
                      peer::v1::PingResponse& response);
  grpc::Status Tell(peer::v1::GetSharesResponse& response);

  Mutex mutex_;  // Held while the source is used.
  Source source_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_LINKS_PEERS_SERVICE_H_
