#include "scheduler_service/door/grpc/inference_service.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "common/version.h"
#include "scheduler_service/door/grpc/info_codec.h"
#include "scheduler_service/door/grpc/refusal_status.h"
#include "scheduler_service/door/grpc/request_codec.h"
#include "scheduler_service/door/grpc/text_call.h"

namespace bole {
namespace {

constexpr char kTenantKey[] = "bole-tenant";

// Messages up to here are read within milliseconds.
constexpr size_t kShortMessageBytes = 16 << 10;

// Output is merged up to here while a client does not read: a chunk is encoded
// in a fraction of a millisecond, and is taken soon by whoever reads at all.
constexpr size_t kMaxDeltaBytes = 16 << 10;

// Encoding takes less than a tenth of the time of the loop and of gRPC.
int NumDeliveryThreads() {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  return std::clamp(cores / 4, 2, 8);
}

// Several values make one with commas, which is no tenant.
std::string TenantOf(const grpc::CallbackServerContext& context) {
  std::string tenant;
  const auto [begin, end] = context.client_metadata().equal_range(kTenantKey);
  for (auto at = begin; at != end; ++at) {
    absl::StrAppend(&tenant, at == begin ? "" : ",",
                    absl::string_view(at->second.data(), at->second.size()));
  }
  return tenant;
}

RequestHead HeadOf(const grpc::CallbackServerContext& context,
                   const v1::GenerateRequest& message) {
  return {.tenant = TenantOf(context),
          .model = message.model(),
          .bytes = message.ByteSizeLong()};
}

}  // namespace

InferenceService::InferenceService(FrontDoor& door, const SchedulerLoop& loop)
    : door_(door),
      loop_(loop),
      started_(std::chrono::steady_clock::now()),
      delivery_(NumDeliveryThreads(), /*max_waiting=*/SIZE_MAX) {}

grpc::ServerWriteReactor<v1::GenerateResponse>* InferenceService::Generate(
    grpc::CallbackServerContext* context, const v1::GenerateRequest* request) {
  const std::shared_ptr<GenerateCall> call = GenerateCall::Create(
      *context, {.door = door_,
                 .delivery = delivery_,
                 .stream_limits = {
                     .max_waiting_bytes = door_.limits().max_undelivered_bytes,
                     .max_delta_bytes = kMaxDeltaBytes}});
  const RequestHead head = HeadOf(*context, *request);
  if (head.bytes <= kShortMessageBytes) {
    AdmitOrRefuse(head, *request, *call);
    return call.get();
  }
  std::optional<Refusal> refusal = door_.Check(head);
  if (!refusal && !call->ReadLater(door_.long_generates(), [=, this] {
        AdmitOrRefuse(head, *request, *call);
      })) {
    refusal = door_.RefuseLongMessage(door_.long_generates());
  }
  if (refusal) call->Refuse(*refusal);
  return call.get();
}

void InferenceService::AdmitOrRefuse(const RequestHead& head,
                                     const v1::GenerateRequest& message,
                                     GenerateCall& call) {
  const std::optional<Refusal> refusal = Admit(head, message, call);
  if (refusal) call.Refuse(*refusal);
}

std::optional<Refusal> InferenceService::Admit(
    const RequestHead& head, const v1::GenerateRequest& message,
    GenerateCall& call) {
  // While it waited for its turn.
  if (call.cancelled()) return CancelledRefusal();
  auto read = door_.Read(
      head, [&](const ModelText& text, const WorkerDescription& worker) {
        return DecodeGenerate(message, text, worker);
      });
  if (auto* refusal = std::get_if<Refusal>(&read)) return *refusal;
  const bool complete_only = message.has_stream() && !message.stream();
  return call.Submit(std::get<std::unique_ptr<Request>>(std::move(read)),
                     complete_only);
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
