#include "scheduler_service/door/grpc/admin_service.h"

#include "common/flight/flight_file.h"
#include "scheduler_service/door/grpc/admin_codec.h"

namespace bole {
namespace {

grpc::ServerUnaryReactor* Ok(grpc::CallbackServerContext& context) {
  // Taken once: a second call of DefaultReactor() would reset it.
  grpc::ServerUnaryReactor* reactor = context.DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

}  // namespace

grpc::ServerUnaryReactor* AdminService::ListWorkers(
    grpc::CallbackServerContext* context, const v1::ListWorkersRequest*,
    v1::ListWorkersResponse* response) {
  *response = EncodeWorkers(loop_.status());
  return Ok(*context);
}

grpc::ServerUnaryReactor* AdminService::GetLoad(
    grpc::CallbackServerContext* context, const v1::GetLoadRequest*,
    v1::GetLoadResponse* response) {
  *response = EncodeLoad(loop_.status());
  return Ok(*context);
}

grpc::ServerUnaryReactor* AdminService::Audit(
    grpc::CallbackServerContext* context, const v1::AuditRequest*,
    v1::AuditResponse* response) {
  *response = EncodeAudit(loop_.status());
  return Ok(*context);
}

grpc::ServerUnaryReactor* AdminService::DumpRounds(
    grpc::CallbackServerContext* context, const v1::DumpRoundsRequest*,
    v1::DumpRoundsResponse* response) {
  if (rounds_ == nullptr) {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish({grpc::StatusCode::FAILED_PRECONDITION,
                     "this scheduler keeps no rounds"});
    return reactor;
  }
  response->set_json_lines(
      FlightJsonLines(*rounds_, "bole-scheduler", FlightReason::kAsked));
  return Ok(*context);
}

}  // namespace bole
