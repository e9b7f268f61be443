#include "scheduler_service/door/grpc/inference_service.h"

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "common/version.h"
#include "scheduler_service/door/grpc/generate_call.h"
#include "scheduler_service/door/grpc/refusal_status.h"
#include "scheduler_service/door/grpc/text_call.h"
#include "scheduler_service/door/messages/info_codec.h"
#include "scheduler_service/door/messages/request_codec.h"

namespace bole {
namespace {

constexpr char kTenantKey[] = "bole-tenant";
constexpr char kAuthorizationKey[] = "authorization";
constexpr char kTraceparentKey[] = "traceparent";

// Several values are joined by commas, and then are not a valid tenant or
// token.
std::string MetadataOf(const grpc::CallbackServerContext& context,
                       const char* key) {
  std::string value;
  const auto [begin, end] = context.client_metadata().equal_range(key);
  for (auto at = begin; at != end; ++at) {
    absl::StrAppend(&value, at == begin ? "" : ",",
                    absl::string_view(at->second.data(), at->second.size()));
  }
  return value;
}

RequestHead HeadOf(const grpc::CallbackServerContext& context,
                   const v1::GenerateRequest& message) {
  return {.tenant = MetadataOf(context, kTenantKey),
          .authorization = MetadataOf(context, kAuthorizationKey),
          .traceparent = MetadataOf(context, kTraceparentKey),
          .model = message.model(),
          .bytes = message.ByteSizeLong()};
}

}  // namespace

InferenceService::InferenceService(FrontDoor& door, const SchedulerLoop& loop,
                                   HandledCalls& handled)
    : door_(door),
      loop_(loop),
      handled_(handled),
      started_(std::chrono::steady_clock::now()) {}

grpc::ServerWriteReactor<v1::GenerateResponse>* InferenceService::Generate(
    grpc::CallbackServerContext* context, const v1::GenerateRequest* request) {
  const std::shared_ptr<GenerateCall> call =
      GenerateCall::Create(*context, door_, handled_);
  const RequestHead head = HeadOf(*context, *request);
  call->Watch(head, request->request_id());
  // A short message is checked when it is read.
  if (head.bytes > kShortMessageBytes) {
    if (const std::optional<Refusal> refusal = door_.Check(head)) {
      call->Refuse(*refusal);
      return call.get();
    }
  }
  call->AdmitBySize(head.bytes, [head, request, raw = call.get()] {
    return raw->Admit(head, *request);
  });
  return call.get();
}

template <typename Message, typename Response>
grpc::ServerUnaryReactor* InferenceService::AnswerAnywhere(
    grpc::CallbackServerContext* context, const Message* message,
    Response* response,
    absl::StatusOr<Response> (*answer)(const Message&, const ModelText&)) {
  // Message and response live until the call is answered.
  const auto fill = [=, this]() -> absl::Status {
    BOLE_ASSIGN_OR_RETURN(const AskedModel model,
                          door_.models().Find(message->model()));
    BOLE_ASSIGN_OR_RETURN(*response, answer(*message, model.text));
    return absl::OkStatus();
  };
  if (message->ByteSizeLong() > kShortMessageBytes) {
    return TextCall::Start(door_, fill);
  }
  // Taken once: a second call of DefaultReactor() would reset it.
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(ToUnaryStatus(fill()));
  return reactor;
}

grpc::ServerUnaryReactor* InferenceService::Tokenize(
    grpc::CallbackServerContext* context, const v1::TokenizeRequest* request,
    v1::TokenizeResponse* response) {
  return AnswerAnywhere(context, request, response, &bole::Tokenize);
}

grpc::ServerUnaryReactor* InferenceService::Detokenize(
    grpc::CallbackServerContext* context, const v1::DetokenizeRequest* request,
    v1::DetokenizeResponse* response) {
  return AnswerAnywhere(context, request, response, &bole::Detokenize);
}

grpc::ServerUnaryReactor* InferenceService::GetModelInfo(
    grpc::CallbackServerContext* context,
    const v1::GetModelInfoRequest* request,
    v1::GetModelInfoResponse* response) {
  const auto fill = [&]() -> absl::Status {
    BOLE_ASSIGN_OR_RETURN(const AskedModel model,
                          door_.models().Find(request->model()));
    if (model.workers.description == nullptr) {
      return absl::UnavailableError("no worker was connected yet");
    }
    *response = EncodeModelInfo(model);
    return absl::OkStatus();
  };
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(ToUnaryStatus(fill()));
  return reactor;
}

grpc::ServerUnaryReactor* InferenceService::ListModels(
    grpc::CallbackServerContext* context, const v1::ListModelsRequest*,
    v1::ListModelsResponse* response) {
  for (const AskedModel& model : door_.models().All()) {
    *response->add_models() = EncodeModelInfo(model);
  }
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

grpc::ServerUnaryReactor* InferenceService::GetServerInfo(
    grpc::CallbackServerContext* context, const v1::GetServerInfoRequest*,
    v1::GetServerInfoResponse* response) {
  *response = EncodeServerInfo(loop_.status());
  response->set_version(kVersion);
  response->set_uptime_seconds(
      std::chrono::duration<double>(std::chrono::steady_clock::now() - started_)
          .count());
  response->set_draining(door_.draining());
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

}  // namespace bole
