#include "scheduler_service/inference_service.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/version.h"
#include "proto/grpc_status.h"
#include "scheduler_service/request_codec.h"
#include "scheduler_service/sampling_codec.h"

namespace bole {
namespace {

// A round takes milliseconds and a request seconds: after one there is likely
// to be room.
constexpr int kRetryAfterMs = 1000;

// Messages up to here are read within milliseconds.
constexpr size_t kShortMessageBytes = 16 << 10;
constexpr size_t kMaxLongMessages = 64;

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

absl::Status TooManyLongMessages() {
  return absl::ResourceExhaustedError(absl::StrCat(
      "too_many_open: ", kMaxLongMessages, " long messages wait to be read"));
}

absl::Status ShuttingDown() {
  return absl::UnavailableError("the server is shutting down");
}

// Ends a unary call, with `answer` in `response` if there is one.
template <typename Response>
void Answer(grpc::ServerUnaryReactor& reactor, absl::StatusOr<Response> answer,
            Response* response) {
  const grpc::Status status = ToGrpcStatus(answer.status());
  if (answer.ok()) *response = *std::move(answer);
  reactor.Finish(status);
}

}  // namespace

InferenceService::InferenceService(const InferenceServiceOptions& options,
                                   const ModelText& text,
                                   const WorkerPresence& presence,
                                   SchedulerLoop& loop, Metrics& metrics)
    : options_(options),
      text_(text),
      presence_(presence),
      loop_(loop),
      metrics_(metrics),
      started_(std::chrono::steady_clock::now()),
      long_messages_(kMaxLongMessages) {}

grpc::ServerWriteReactor<v1::GenerateResponse>* InferenceService::Generate(
    grpc::CallbackServerContext* context, const v1::GenerateRequest* request) {
  const std::shared_ptr<GenerateCall> call =
      GenerateCall::Create(*context, loop_, open_calls_);
  if (request->ByteSizeLong() <= kShortMessageBytes) {
    AdmitOrRefuse(*request, *call);
  } else if (const auto refusal = RefuseAtTheDoor(presence_.Get())) {
    Refuse(*refusal, *call);
  } else if (!long_messages_.Post(
                 [=, this] { AdmitOrRefuse(*request, *call); })) {
    Refuse({TooManyLongMessages(), "too_many_open"}, *call);
  }
  return call.get();
}

void InferenceService::AdmitOrRefuse(const v1::GenerateRequest& message,
                                     GenerateCall& call) {
  if (const std::optional<Refusal> refusal = Admit(message, call)) {
    Refuse(*refusal, call);
  }
}

void InferenceService::Refuse(const Refusal& refusal, GenerateCall& call) {
  metrics_.Rejected(refusal.reason);
  std::optional<int> retry_after_ms;
  if (absl::IsResourceExhausted(refusal.status)) retry_after_ms = kRetryAfterMs;
  call.Refuse(refusal.status, retry_after_ms);
}

std::optional<InferenceService::Refusal> InferenceService::Admit(
    const v1::GenerateRequest& message, GenerateCall& call) {
  if (call.cancelled()) {  // While it waited for its turn.
    return Refusal{absl::CancelledError("the client cancelled"), "cancelled"};
  }
  const WorkerPresence::Snapshot worker = presence_.Get();
  if (std::optional<Refusal> refusal = RefuseAtTheDoor(worker)) return refusal;
  absl::StatusOr<std::unique_ptr<Request>> request =
      DecodeGenerate(message, text_, *worker.description);
  if (!request.ok()) return Refusal{request.status(), "invalid"};
  const bool complete_only = message.has_stream() && !message.stream();
  absl::Status submitted = call.Submit(*std::move(request), complete_only);
  if (submitted.ok()) return std::nullopt;
  if (absl::IsCancelled(submitted)) {
    return Refusal{std::move(submitted), "cancelled"};
  }
  if (!absl::IsResourceExhausted(submitted)) {
    return Refusal{std::move(submitted), "draining"};
  }
  // The message begins with the bound, and a colon.
  const std::string text(submitted.message());
  return Refusal{std::move(submitted), text.substr(0, text.find(':'))};
}

std::optional<InferenceService::Refusal> InferenceService::RefuseAtTheDoor(
    const WorkerPresence::Snapshot& worker) const {
  if (draining_.load()) return Refusal{ShuttingDown(), "draining"};
  if (!worker.connected) {
    return Refusal{absl::UnavailableError(absl::StrCat(
                       "no worker is connected",
                       worker.last_error.empty() ? "" : "; the last error was ",
                       worker.last_error)),
                   "no_worker"};
  }
  if (worker.draining) {
    return Refusal{absl::UnavailableError("the worker is shutting down"),
                   "no_worker"};
  }
  const auto full = [](const char* reason, size_t count, size_t max) {
    return Refusal{absl::ResourceExhaustedError(
                       absl::StrCat(reason, ": ", count, ", of at most ", max)),
                   reason};
  };
  const AdmissionLoad load = loop_.load();
  const AdmissionLimits& limits = options_.admission;
  const size_t open_calls = open_calls_.load();  // This one included.
  if (open_calls > options_.max_open_requests) {
    return full("too_many_open", open_calls - 1, options_.max_open_requests);
  }
  if (load.requests >= limits.max_requests) {
    return full("queue_requests", load.requests, limits.max_requests);
  }
  if (load.requests == 0) return std::nullopt;
  if (load.tokens >= limits.max_tokens) {
    return full("queue_tokens", load.tokens, limits.max_tokens);
  }
  if (load.bytes >= limits.max_bytes) {
    return full("queue_bytes", load.bytes, limits.max_bytes);
  }
  return std::nullopt;
}

template <typename Message, typename Response>
grpc::ServerUnaryReactor* InferenceService::AnswerAnywhere(
    grpc::CallbackServerContext* context, const Message* message,
    Response* response,
    absl::StatusOr<Response> (*answer)(const Message&, const ModelText&)) {
  // Once per call: asked for again, it would begin anew.
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  if (message->ByteSizeLong() <= kShortMessageBytes) {
    Answer(*reactor, answer(*message, text_), response);
    return reactor;
  }
  // Message and response live until the call is answered.
  const bool posted = long_messages_.Post([=, this] {
    absl::StatusOr<Response> result = ShuttingDown();
    if (!draining_.load()) result = answer(*message, text_);
    Answer(*reactor, std::move(result), response);
  });
  if (!posted) reactor->Finish(ToGrpcStatus(TooManyLongMessages()));
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
