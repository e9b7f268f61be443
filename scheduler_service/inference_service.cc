#include "scheduler_service/inference_service.h"

#include <algorithm>
#include <cstdint>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "common/version.h"
#include "proto/grpc_status.h"
#include "scheduler_service/refusal.h"
#include "scheduler_service/request_codec.h"
#include "scheduler_service/sampling_codec.h"
#include "scheduler_service/text_call.h"

namespace bole {
namespace {

// Messages up to here are read within milliseconds.
constexpr size_t kShortMessageBytes = 16 << 10;

// Output is merged up to here while a client does not read: a chunk is encoded
// in a fraction of a millisecond, and is taken soon by whoever reads at all.
constexpr size_t kMaxDeltaBytes = 16 << 10;

const char* NameOf(SpeculationMode mode) {
  switch (mode) {
    case SpeculationMode::kOff:
      return "off";
    case SpeculationMode::kChain:
      return "chain";
    case SpeculationMode::kTree:
      return "tree";
  }
  return "";
}

void Encode(const Speculation& speculation, v1::SpeculationPolicy& message) {
  message.set_mode(NameOf(speculation.mode));
  if (speculation.mode == SpeculationMode::kOff) return;
  const bool is_tree = speculation.mode == SpeculationMode::kTree;
  message.set_top_k(is_tree ? speculation.shape.top_k : 1);
  message.set_depth(speculation.shape.depth);
  message.set_nodes(is_tree ? speculation.nodes : speculation.shape.depth + 1);
  message.set_policy("fixed");
}

void Encode(const PoolStatus& pool, v1::Pool& message) {
  message.set_total(pool.total);
  message.set_free(pool.free);
}

void Encode(const SchedulerStatus& status, const AdmissionLoad& waiting,
            v1::Load& message) {
  message.set_running_requests(status.running);
  message.set_waiting_requests(status.waiting);
  message.set_waiting_tokens(waiting.tokens);
  message.set_waiting_bytes(waiting.bytes);
  Encode(status.slots, *message.mutable_slots());
  Encode(status.pages, *message.mutable_pages());
  message.set_audit(status.audit);
}

absl::Status ShuttingDown() {
  return WithReason(absl::UnavailableError("the server is shutting down"),
                    RefusalReason::kDraining);
}

OpenCallsLimits WatchLimits(const DoorLimits& door) {
  return {.max_held_bytes = door.max_output_bytes,
          .stalled_after = door.stalled_reader};
}

// Encoding takes less than a tenth of the time of the loop and of gRPC.
int NumDeliveryThreads() {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  return std::clamp(cores / 4, 2, 8);
}

}  // namespace

InferenceService::InferenceService(const InferenceServiceOptions& options,
                                   const ModelText& text,
                                   const WorkerPresence& presence,
                                   SchedulerLoop& loop,
                                   prometheus::Registry& registry)
    : options_(options),
      text_(text),
      presence_(presence),
      loop_(loop),
      metrics_(registry),
      started_(std::chrono::steady_clock::now()),
      long_generates_(/*num_threads=*/1, options.door.max_long_messages),
      long_texts_(/*num_threads=*/1, options.door.max_long_messages),
      delivery_(NumDeliveryThreads(), /*max_waiting=*/SIZE_MAX),
      open_calls_(WatchLimits(options.door),
                  [this](const OpenCallsLoad& load) { ReportLoad(load); }) {}

void InferenceService::ReportLoad(const OpenCallsLoad& load) {
  metrics_.SetLoad({.open_requests = load.calls,
                    .undelivered_bytes = load.undelivered_bytes,
                    .kept_bytes = load.kept_bytes,
                    .long_generates = long_generates_.num_waiting(),
                    .long_texts = long_texts_.num_waiting()});
}

grpc::ServerWriteReactor<v1::GenerateResponse>* InferenceService::Generate(
    grpc::CallbackServerContext* context, const v1::GenerateRequest* request) {
  const std::shared_ptr<GenerateCall> call = GenerateCall::Create(
      *context, {.loop = loop_,
                 .open_calls = open_calls_,
                 .delivery = delivery_,
                 .metrics = metrics_,
                 .stream_limits = {
                     .max_waiting_bytes = options_.door.max_undelivered_bytes,
                     .max_delta_bytes = kMaxDeltaBytes}});
  if (request->ByteSizeLong() <= kShortMessageBytes) {
    AdmitOrRefuse(*request, *call);
    return call.get();
  }
  absl::Status refusal = RefuseAtTheDoor(presence_.Get());
  if (refusal.ok() && !call->ReadLater(long_generates_, [=, this] {
        AdmitOrRefuse(*request, *call);
      })) {
    refusal =
        FullError(RefusalReason::kLongMessages, long_generates_.max_waiting(),
                  long_generates_.max_waiting());
  }
  if (!refusal.ok()) call->Refuse(refusal);
  return call.get();
}

void InferenceService::AdmitOrRefuse(const v1::GenerateRequest& message,
                                     GenerateCall& call) {
  const absl::Status refusal = Admit(message, call);
  if (!refusal.ok()) call.Refuse(refusal);
}

absl::Status InferenceService::Admit(const v1::GenerateRequest& message,
                                     GenerateCall& call) {
  if (call.cancelled()) {  // While it waited for its turn.
    return WithReason(absl::CancelledError("the client cancelled"),
                      RefusalReason::kCancelled);
  }
  const WorkerPresence::Snapshot worker = presence_.Get();
  BOLE_RETURN_IF_ERROR(RefuseAtTheDoor(worker));
  absl::StatusOr<std::unique_ptr<Request>> request =
      DecodeGenerate(message, text_, *worker.description);
  if (!request.ok()) {
    return WithReason(request.status(), RefusalReason::kInvalid);
  }
  const bool complete_only = message.has_stream() && !message.stream();
  return call.Submit(*std::move(request), complete_only);
}

absl::Status InferenceService::RefuseAtTheDoor(
    const WorkerPresence::Snapshot& worker) const {
  if (draining_.load()) return ShuttingDown();
  if (!worker.connected) {
    return WithReason(
        absl::UnavailableError(absl::StrCat(
            "no worker is connected",
            worker.last_error.empty() ? "" : "; the last error was ",
            worker.last_error)),
        RefusalReason::kNoWorker);
  }
  if (worker.draining) {
    return WithReason(absl::UnavailableError("the worker is shutting down"),
                      RefusalReason::kNoWorker);
  }
  const DoorLimits& door = options_.door;
  const size_t open_calls = open_calls_.size();  // This one included.
  if (open_calls > door.max_open_requests) {
    return FullError(RefusalReason::kTooManyOpen, open_calls - 1,
                     door.max_open_requests);
  }
  if (open_calls_.held_bytes() >= door.max_output_bytes) {
    return FullError(RefusalReason::kHeldOutput, open_calls_.held_bytes(),
                     door.max_output_bytes);
  }
  return RefuseByTheQueue(loop_.load());
}

absl::Status InferenceService::RefuseByTheQueue(
    const AdmissionLoad& load) const {
  const AdmissionLimits& limits = options_.admission;
  if (load.requests >= limits.max_requests) {
    return FullError(RefusalReason::kQueueRequests, load.requests,
                     limits.max_requests);
  }
  if (load.requests == 0) return absl::OkStatus();
  if (load.tokens >= limits.max_tokens) {
    return FullError(RefusalReason::kQueueTokens, load.tokens,
                     limits.max_tokens);
  }
  if (load.bytes >= limits.max_bytes) {
    return FullError(RefusalReason::kQueueBytes, load.bytes, limits.max_bytes);
  }
  return absl::OkStatus();
}

template <typename Message, typename Response>
grpc::ServerUnaryReactor* InferenceService::AnswerAnywhere(
    grpc::CallbackServerContext* context, const Message* message,
    Response* response,
    absl::StatusOr<Response> (*answer)(const Message&, const ModelText&)) {
  // Message and response live until the call is answered.
  const auto fill = [=, this]() -> absl::Status {
    BOLE_ASSIGN_OR_RETURN(*response, answer(*message, text_));
    return absl::OkStatus();
  };
  if (message->ByteSizeLong() > kShortMessageBytes) {
    return TextCall::Start(*context, long_texts_, metrics_, [=, this] {
      return draining_.load() ? ShuttingDown() : fill();
    });
  }
  // Taken once: a second call of DefaultReactor() would reset it.
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(ToGrpcStatus(fill()));
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
    grpc::CallbackServerContext* context, const v1::GetModelInfoRequest*,
    v1::GetModelInfoResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const std::shared_ptr<const WorkerDescription> worker =
      presence_.Get().description;
  if (worker == nullptr) {
    reactor->Finish(
        ToGrpcStatus(absl::UnavailableError("no worker was connected yet")));
    return reactor;
  }
  v1::GetModelInfoResponse& answer = *response;
  answer.set_model(worker->model);
  answer.set_max_context(ContextCapacity(worker->limits));
  answer.set_vocab_size(worker->limits.vocabulary);
  answer.mutable_eos_token_ids()->Add(worker->stop_tokens.begin(),
                                      worker->stop_tokens.end());
  *answer.mutable_default_sampling_params() = EncodeDefaults(*worker);
  answer.set_has_drafter(worker->has_drafter);
  answer.set_has_chat_template(text_.chat_template.has_value());
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

grpc::ServerUnaryReactor* InferenceService::GetServerInfo(
    grpc::CallbackServerContext* context, const v1::GetServerInfoRequest*,
    v1::GetServerInfoResponse* response) {
  const SchedulerStatus status = loop_.status();
  v1::GetServerInfoResponse& answer = *response;
  answer.set_version(kVersion);
  answer.set_uptime_seconds(
      std::chrono::duration<double>(std::chrono::steady_clock::now() - started_)
          .count());
  answer.set_draining(draining_.load());
  v1::WorkerInfo& worker = *answer.add_workers();
  worker.set_address(options_.worker_address);
  worker.set_connected(status.connected);
  worker.set_epoch(status.epoch);
  if (status.worker != nullptr) worker.set_device(status.worker->device);
  worker.set_last_error(status.last_error);
  Encode(status, loop_.load(), *answer.mutable_load());
  Encode(status.worker != nullptr ? status.speculation : options_.speculation,
         *answer.mutable_speculation());
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

}  // namespace bole
