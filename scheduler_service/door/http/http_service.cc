#include "scheduler_service/door/http/http_service.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/net/metrics_endpoint.h"
#include "common/version.h"
#include "scheduler_service/door/http/http_answers.h"
#include "scheduler_service/door/http/http_generate_call.h"
#include "scheduler_service/door/http/http_text_call.h"
#include "scheduler_service/door/http/model_answers.h"
#include "scheduler_service/door/openai/openai_error.h"
#include "scheduler_service/door/request_body.h"
#include "scheduler_service/jobs/refusal.h"

namespace bole {
namespace {

std::string RequestIdOf(const HttpRequest& request) {
  const bool fits = !request.id.empty() &&
                    request.id.size() <= kMaxRequestIdBytes &&
                    std::all_of(request.id.begin(), request.id.end(),
                                [](char c) { return c > ' ' && c <= '~'; });
  return fits ? request.id : MakeUpRequestId();
}

}  // namespace

std::optional<HttpAnswer> HttpService::Refuse(const HttpRequest& head) {
  auto found = FindRoute(head.method, head.path);
  if (auto* answer = std::get_if<HttpAnswer>(&found)) {
    return WithId(std::move(*answer), RequestIdOf(head));
  }
  const HttpRoute& route = *std::get<const HttpRoute*>(found);
  if (!route.scope) return std::nullopt;
  const std::optional<Refusal> refusal = door_.Authorize(
      {.tenant = head.tenant, .authorization = head.authorization},
      *route.scope);
  if (!refusal) return std::nullopt;
  door_.metrics().Denied(refusal->reason);
  return WithId(ErrorAnswer(ToOpenAiError(*refusal)), RequestIdOf(head));
}

std::shared_ptr<HttpCall> HttpService::Handle(
    HttpRequest request, std::shared_ptr<HttpExchange> exchange) {
  // Refuse() has checked that the route exists.
  const auto found = FindRoute(request.method, request.path);
  const HttpRoute& route = *std::get<const HttpRoute*>(found);
  std::string id = RequestIdOf(request);
  switch (route.name) {
    case HttpRouteName::kChat:
      return Generate(OpenAiApi::kChat, std::move(request), std::move(id),
                      std::move(exchange));
    case HttpRouteName::kCompletions:
      return Generate(OpenAiApi::kCompletions, std::move(request),
                      std::move(id), std::move(exchange));
    case HttpRouteName::kResponses:
      return Generate(OpenAiApi::kResponses, std::move(request), std::move(id),
                      std::move(exchange));
    case HttpRouteName::kTokenize:
      return AnswerText(&AnswerTokenize, std::move(request.body), std::move(id),
                        std::move(exchange));
    case HttpRouteName::kDetokenize:
      return AnswerText(&AnswerDetokenize, std::move(request.body),
                        std::move(id), std::move(exchange));
    default:
      exchange->Answer(WithId(AnswerTo(route, request.path), id));
      return nullptr;
  }
}

std::shared_ptr<HttpCall> HttpService::Generate(
    OpenAiApi api, HttpRequest request, std::string id,
    std::shared_ptr<HttpExchange> exchange) {
  return HttpGenerateCall::Start(
      door_, api,
      {.tenant = std::move(request.tenant),
       .authorization = std::move(request.authorization),
       .traceparent = std::move(request.traceparent)},
      std::move(id), std::move(request.body), std::move(exchange));
}

std::shared_ptr<HttpCall> HttpService::AnswerText(
    TextAnswer answer, std::string body, std::string id,
    std::shared_ptr<HttpExchange> exchange) {
  if (body.size() > kShortMessageBytes) {
    return HttpTextCall::Start(door_, std::move(id), std::move(exchange),
                               [this, answer, body = std::move(body)] {
                                 return answer(door_.models(), body);
                               });
  }
  exchange->Answer(WithId(answer(door_.models(), body), id));
  return nullptr;
}

HttpAnswer HttpService::AnswerTo(const HttpRoute& route,
                                 const std::string& path) const {
  switch (route.name) {
    case HttpRouteName::kHealth:
      if (loop_.running()) return {.body = R"({"status":"ok"})"};
      return HttpError(503, "stopped", "the scheduler does not run");
    case HttpRouteName::kReady:
      return Ready();
    case HttpRouteName::kMetrics:
      return MetricsAnswer(metrics_);
    case HttpRouteName::kVersion:
      return {.body = absl::StrCat(R"({"version":")", kVersion, R"("})")};
    case HttpRouteName::kModels:
      return AnswerModels(door_.models(), started_unix_seconds_);
    case HttpRouteName::kModel:
      return AnswerModel(door_.models(), ParameterOf(route, path),
                         started_unix_seconds_);
    default:
      break;
  }
  return HttpError(500, "internal", "a route without an answer");
}

HttpAnswer HttpService::Ready() const {
  if (door_.draining()) {
    return HttpError(503, NameOf(RefusalReason::kDraining),
                     DrainingRefusal().message);
  }
  for (const AskedModel& model : door_.models().All()) {
    if (model.workers.ready()) return {.body = R"({"status":"ready"})"};
  }
  return HttpError(503, NameOf(RefusalReason::kNoWorker),
                   "no worker is connected");
}

}  // namespace bole
