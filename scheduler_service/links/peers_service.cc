#include "scheduler_service/links/peers_service.h"

#include <string>
#include <utility>

namespace bole {
namespace {

namespace wire = peer::v1;

const grpc::Status& Closed() {
  static const grpc::Status status(
      grpc::StatusCode::UNAVAILABLE,
      "the scheduler does not share workers at the moment");
  return status;
}

void Add(const std::string& name, wire::Scheduler::State state,
         wire::GetSharesResponse& response) {
  wire::Scheduler& scheduler = *response.add_schedulers();
  scheduler.set_name(name);
  scheduler.set_state(state);
}

void Encode(const ModelShare& share, wire::ModelShare& message) {
  message.set_model(share.model);
  message.set_workers(share.workers);
  message.set_share(share.share);
  message.set_held(share.held);
  message.set_giving_back(share.giving_back);
  message.set_known(share.place.has_value());
}

void Encode(const PeerView& view, const Peer& self,
            wire::GetSharesResponse& response) {
  for (const Peer& peer : view.living) {
    Add(peer.name, wire::Scheduler::LIVING, response);
    response.mutable_schedulers()->rbegin()->set_is_self(peer.instance ==
                                                         self.instance);
  }
  for (const std::string& name : view.leaving) {
    Add(name, wire::Scheduler::LEAVING, response);
  }
  for (const std::string& name : view.silent) {
    Add(name, wire::Scheduler::SILENT, response);
  }
}

}  // namespace

void PeersService::Open(Source source) {
  MutexLock lock(mutex_);
  source_ = std::move(source);
}

void PeersService::Close() { Open({}); }

grpc::ServerUnaryReactor* PeersService::Ping(
    grpc::CallbackServerContext* context, const wire::PingRequest* request,
    wire::PingResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(Answer(*request, *response));
  return reactor;
}

grpc::ServerUnaryReactor* PeersService::GetShares(
    grpc::CallbackServerContext* context,
    const wire::GetSharesRequest* /*request*/,
    wire::GetSharesResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(Tell(*response));
  return reactor;
}

grpc::Status PeersService::Answer(const wire::PingRequest& request,
                                  wire::PingResponse& response) {
  MutexLock lock(mutex_);
  if (!source_.shares) return Closed();
  if (source_.peers == nullptr) {
    return {grpc::StatusCode::FAILED_PRECONDITION,
            "this scheduler has a fixed share of the workers, and no peers"};
  }
  source_.peers->Heard(request.instance(), request.leaving());
  const Peer self = source_.peers->self();
  response.set_instance(self.instance);
  response.set_name(self.name);
  response.set_started_us(self.started_us);
  response.set_leaving(self.leaving);
  response.mutable_models()->Add(self.models.begin(), self.models.end());
  return grpc::Status::OK;
}

grpc::Status PeersService::Tell(wire::GetSharesResponse& response) {
  MutexLock lock(mutex_);
  if (!source_.shares) return Closed();
  const PoolShares shares = source_.shares();
  for (const ModelShare& share : shares.models) {
    Encode(share, *response.add_models());
  }
  if (source_.peers != nullptr) {
    Encode(source_.peers->view(), source_.peers->self(), response);
  }
  return grpc::Status::OK;
}

}  // namespace bole
