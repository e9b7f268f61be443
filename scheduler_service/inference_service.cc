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

// Ends a unary call, with `answer` in `response` if there is one.
template <typename Response>
grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context,
                                 absl::StatusOr<Response> answer,
                                 Response* response) {
  if (answer.ok()) *response = *std::move(answer);
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(ToGrpcStatus(answer.status()));
  return reactor;
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
      started_(std::chrono::steady_clock::now()) {}

grpc::ServerWriteReactor<v1::GenerateResponse>* InferenceService::Generate(
    grpc::CallbackServerContext* context, const v1::GenerateRequest* request) {
  const std::shared_ptr<GenerateCall> call =
      GenerateCall::Create(*context, loop_, open_calls_);
  if (const std::optional<Refusal> refusal = Admit(*request, *call)) {
    metrics_.Rejected(refusal->reason);
    std::optional<int> retry_after_ms;
    if (absl::IsResourceExhausted(refusal->status)) {
      retry_after_ms = kRetryAfterMs;
    }
    call->Refuse(refusal->status, retry_after_ms);
  }
  return call.get();
}

std::optional<InferenceService::Refusal> InferenceService::Admit(
    const v1::GenerateRequest& message, GenerateCall& call) {
  const WorkerPresence::Snapshot worker = presence_.Get();
  if (std::optional<Refusal> refusal = RefuseAtTheDoor(worker)) return refusal;
  absl::StatusOr<std::unique_ptr<Request>> request =
      DecodeGenerate(message, text_, *worker.description);
  if (!request.ok()) return Refusal{request.status(), "invalid"};
  const bool complete_only = message.has_stream() && !message.stream();
  absl::Status submitted = call.Submit(*std::move(request), complete_only);
  if (submitted.ok()) return std::nullopt;
  if (!absl::IsResourceExhausted(submitted)) {
    return Refusal{std::move(submitted), "draining"};
  }
  // The message begins with the bound, and a colon.
  const std::string text(submitted.message());
  return Refusal{std::move(submitted), text.substr(0, text.find(':'))};
}

std::optional<InferenceService::Refusal> InferenceService::RefuseAtTheDoor(
    const WorkerPresence::Snapshot& worker) const {
  if (draining_.load()) {
    return Refusal{absl::UnavailableError("the server is shutting down"),
                   "draining"};
  }
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

grpc::ServerUnaryReactor* InferenceService::Tokenize(
    grpc::CallbackServerContext* context, const v1::TokenizeRequest* request,
    v1::TokenizeResponse* response) {
  return Answer(context, bole::Tokenize(*request, text_), response);
}

grpc::ServerUnaryReactor* InferenceService::Detokenize(
    grpc::CallbackServerContext* context, const v1::DetokenizeRequest* request,
    v1::DetokenizeResponse* response) {
  return Answer(context, bole::Detokenize(*request, text_), response);
}

grpc::ServerUnaryReactor* InferenceService::GetModelInfo(
    grpc::CallbackServerContext* context, const v1::GetModelInfoRequest*,
    v1::GetModelInfoResponse* response) {
  const std::shared_ptr<const WorkerDescription> worker = loop_.status().worker;
  if (worker == nullptr) {
    return Answer<v1::GetModelInfoResponse>(
        context, absl::UnavailableError("no worker was connected yet"),
        response);
  }
  v1::GetModelInfoResponse answer;
  answer.set_model(worker->model);
  answer.set_max_context(ContextCapacity(worker->limits));
  answer.set_vocab_size(worker->limits.vocabulary);
  answer.mutable_eos_token_ids()->Add(worker->stop_tokens.begin(),
                                      worker->stop_tokens.end());
  *answer.mutable_default_sampling_params() = EncodeDefaults(*worker);
  answer.set_has_drafter(worker->has_drafter);
  answer.set_has_chat_template(text_.chat_template.has_value());
  return Answer<v1::GetModelInfoResponse>(context, std::move(answer), response);
}

grpc::ServerUnaryReactor* InferenceService::GetServerInfo(
    grpc::CallbackServerContext* context, const v1::GetServerInfoRequest*,
    v1::GetServerInfoResponse* response) {
  const SchedulerStatus status = loop_.status();
  v1::GetServerInfoResponse answer;
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
  Encode(options_.speculation, *answer.mutable_speculation());
  return Answer<v1::GetServerInfoResponse>(context, std::move(answer),
                                           response);
}

}  // namespace bole
