// bole.v1.BoleService: the service for clients.
#ifndef BOLE_SCHEDULER_SERVICE_DOOR_GRPC_INFERENCE_SERVICE_H_
#define BOLE_SCHEDULER_SERVICE_DOOR_GRPC_INFERENCE_SERVICE_H_

#include <chrono>

#include "absl/status/statusor.h"
#include "common/net/handled_calls.h"
#include "grpcpp/support/server_callback.h"
#include "proto/bole.grpc.pb.h"
#include "scheduler_service/door/front_door.h"
#include "scheduler_service/models/model_text.h"
#include "scheduler_service/scheduler_loop.h"

namespace bole {

// The front door for gRPC: reads messages, passes them to the door, and writes
// what the loop puts on the streams. gRPC has few threads, which serve all
// streams, so threads of the door do the work that takes long: some read long
// messages, some encode what the loop appends to streams.
//
// Thread-safe. Calls must have ended before it is destroyed.
class InferenceService final : public v1::BoleService::CallbackService {
 public:
  // The references must outlive the service. It only reports the loop's status;
  // `handled` counts its streams.
  InferenceService(FrontDoor& door, const SchedulerLoop& loop,
                   HandledCalls& handled);

  // The tenant of a call is the value of its metadata "bole-tenant".
  grpc::ServerWriteReactor<v1::GenerateResponse>* Generate(
      grpc::CallbackServerContext* context,
      const v1::GenerateRequest* request) override;
  grpc::ServerUnaryReactor* Tokenize(grpc::CallbackServerContext* context,
                                     const v1::TokenizeRequest* request,
                                     v1::TokenizeResponse* response) override;
  grpc::ServerUnaryReactor* Detokenize(
      grpc::CallbackServerContext* context,
      const v1::DetokenizeRequest* request,
      v1::DetokenizeResponse* response) override;
  grpc::ServerUnaryReactor* GetModelInfo(
      grpc::CallbackServerContext* context,
      const v1::GetModelInfoRequest* request,
      v1::GetModelInfoResponse* response) override;
  grpc::ServerUnaryReactor* ListModels(
      grpc::CallbackServerContext* context,
      const v1::ListModelsRequest* request,
      v1::ListModelsResponse* response) override;
  grpc::ServerUnaryReactor* GetServerInfo(
      grpc::CallbackServerContext* context,
      const v1::GetServerInfoRequest* request,
      v1::GetServerInfoResponse* response) override;

 private:
  // Ends a unary call with what `answer` returns for the message: on a thread
  // of the door if the message is long, or else at once.
  template <typename Message, typename Response>
  grpc::ServerUnaryReactor* AnswerAnywhere(
      grpc::CallbackServerContext* context, const Message* message,
      Response* response,
      absl::StatusOr<Response> (*answer)(const Message&, const ModelText&));

  FrontDoor& door_;
  const SchedulerLoop& loop_;
  HandledCalls& handled_;
  const std::chrono::steady_clock::time_point started_;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_DOOR_GRPC_INFERENCE_SERVICE_H_
