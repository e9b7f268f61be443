#include "clients/sdk/client.h"

#include <chrono>
#include <random>
#include <utility>

#include "clients/sdk/call_error.h"
#include "clients/sdk/retry_policy.h"
#include "common/status_macros.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/status.h"

namespace bole {
namespace {

using std::chrono::steady_clock;

}  // namespace

absl::StatusOr<std::unique_ptr<Client>> Client::Create(
    const ClientOptions& options) {
  BOLE_ASSIGN_OR_RETURN(ServerChannel channel, ServerChannel::Open(options));
  return std::unique_ptr<Client>(new Client(options, std::move(channel)));
}

Client::Client(const ClientOptions& options, ServerChannel channel)
    : options_(options),
      channel_(std::move(channel)),
      bole_(v1::BoleService::NewStub(channel_.channel())),
      admin_(v1::Admin::NewStub(channel_.channel())) {}

Client::~Client() {
  MutexLock lock(mutex_);
  for (const auto& [key, generation] : open_) generation->Cancel();
  while (num_open_ > 0) changed_.Wait(mutex_);
}

void Client::OnEnded(AsyncGeneration* ended) {
  std::shared_ptr<AsyncGeneration> last;
  {
    MutexLock lock(mutex_);
    last = std::move(open_.extract(ended).mapped());
  }
  last.reset();
  MutexLock lock(mutex_);
  --num_open_;
  changed_.NotifyAll();
}

std::optional<Generation::TimePoint> Client::DeadlineOf(
    const CallOptions& options) const {
  const auto timeout = options.timeout ? options.timeout : options_.timeout;
  if (!timeout) return std::nullopt;
  return steady_clock::now() + *timeout;
}

Generation Client::Begin(v1::GenerateRequest request,
                         const CallOptions& options,
                         std::optional<Generation::TimePoint> deadline) const {
  if (request.model().empty()) request.set_model(options_.model);
  return {std::move(request), options.retry.value_or(options_.retry), deadline,
          std::random_device()()};
}

std::unique_ptr<GenerateStream> Client::Generate(v1::GenerateRequest request,
                                                 const CallOptions& options) {
  const auto deadline = DeadlineOf(options);
  return std::make_unique<GenerateStream>(
      channel_, *bole_, Begin(std::move(request), options, deadline), deadline,
      options.cancellation);
}

std::shared_ptr<AsyncGeneration> Client::GenerateAsync(
    v1::GenerateRequest request, GenerateHandlers handlers,
    const CallOptions& options) {
  const auto deadline = DeadlineOf(options);
  auto generation = std::make_shared<AsyncGeneration>(
      channel_, *bole_, Begin(std::move(request), options, deadline), deadline,
      std::move(handlers), [this](AsyncGeneration* ended) { OnEnded(ended); });
  {
    MutexLock lock(mutex_);
    open_.emplace(generation.get(), generation);
    ++num_open_;
  }
  generation->Start();
  return generation;
}

template <typename Response, typename Stub, typename Method, typename Request>
absl::StatusOr<Response> Client::Unary(Stub& stub, Method method,
                                       Request request,
                                       const CallOptions& options) {
  if constexpr (requires { request.set_model(options_.model); }) {
    if (request.model().empty()) request.set_model(options_.model);
  }
  const auto deadline = DeadlineOf(options);
  Retries retries(options.retry.value_or(options_.retry), deadline,
                  std::random_device()());
  Cancellation none;
  Cancellation& cancellation =
      options.cancellation != nullptr ? *options.cancellation : none;
  for (;;) {
    grpc::ClientContext context;
    channel_.Prepare(context, deadline);
    Response response;
    grpc::Status status;
    {
      const Cancellation::Scope scope(cancellation, context);
      status = (stub.*method)(&context, request, &response);
    }
    if (status.ok()) return response;
    if (cancellation.cancelled()) {
      return absl::CancelledError("the caller cancelled");
    }
    const auto now = steady_clock::now();
    const auto delay = retries.DelayAfter(ReadError(status), /*began=*/false,
                                          /*progressed=*/false, now);
    if (!delay) return ToCallStatus(status);
    if (!cancellation.SleepUntil(now + *delay)) {
      return absl::CancelledError("the caller cancelled");
    }
  }
}

absl::StatusOr<v1::TokenizeResponse> Client::Tokenize(
    v1::TokenizeRequest request, const CallOptions& options) {
  return Unary<v1::TokenizeResponse>(*bole_, &v1::BoleService::Stub::Tokenize,
                                     std::move(request), options);
}

absl::StatusOr<v1::DetokenizeResponse> Client::Detokenize(
    v1::DetokenizeRequest request, const CallOptions& options) {
  return Unary<v1::DetokenizeResponse>(
      *bole_, &v1::BoleService::Stub::Detokenize, std::move(request), options);
}

absl::StatusOr<v1::ListModelsResponse> Client::ListModels(
    const CallOptions& options) {
  return Unary<v1::ListModelsResponse>(*bole_,
                                       &v1::BoleService::Stub::ListModels,
                                       v1::ListModelsRequest(), options);
}

absl::StatusOr<v1::GetModelInfoResponse> Client::GetModelInfo(
    v1::GetModelInfoRequest request, const CallOptions& options) {
  return Unary<v1::GetModelInfoResponse>(*bole_,
                                         &v1::BoleService::Stub::GetModelInfo,
                                         std::move(request), options);
}

absl::StatusOr<v1::GetServerInfoResponse> Client::GetServerInfo(
    const CallOptions& options) {
  return Unary<v1::GetServerInfoResponse>(*bole_,
                                          &v1::BoleService::Stub::GetServerInfo,
                                          v1::GetServerInfoRequest(), options);
}

absl::StatusOr<v1::ListWorkersResponse> Client::ListWorkers(
    const CallOptions& options) {
  return Unary<v1::ListWorkersResponse>(*admin_, &v1::Admin::Stub::ListWorkers,
                                        v1::ListWorkersRequest(), options);
}

absl::StatusOr<v1::GetLoadResponse> Client::GetLoad(
    const CallOptions& options) {
  return Unary<v1::GetLoadResponse>(*admin_, &v1::Admin::Stub::GetLoad,
                                    v1::GetLoadRequest(), options);
}

absl::StatusOr<v1::AuditResponse> Client::Audit(const CallOptions& options) {
  return Unary<v1::AuditResponse>(*admin_, &v1::Admin::Stub::Audit,
                                  v1::AuditRequest(), options);
}

absl::StatusOr<v1::DumpRoundsResponse> Client::DumpRounds(
    const CallOptions& options) {
  return Unary<v1::DumpRoundsResponse>(*admin_, &v1::Admin::Stub::DumpRounds,
                                       v1::DumpRoundsRequest(), options);
}

}  // namespace bole
