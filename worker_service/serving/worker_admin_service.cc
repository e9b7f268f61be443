#include "worker_service/serving/worker_admin_service.h"

#include "common/flight/flight_file.h"

namespace bole {

grpc::ServerUnaryReactor* WorkerAdminService::DumpRounds(
    grpc::CallbackServerContext* context, const v1::DumpRoundsRequest*,
    v1::DumpRoundsResponse* response) {
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  if (rounds_ == nullptr) {
    reactor->Finish(
        {grpc::StatusCode::FAILED_PRECONDITION, "this worker keeps no rounds"});
    return reactor;
  }
  response->set_json_lines(
      FlightJsonLines(*rounds_, "bole-worker", FlightReason::kAsked));
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

}  // namespace bole
