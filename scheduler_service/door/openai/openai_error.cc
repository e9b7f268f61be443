#include "scheduler_service/door/openai/openai_error.h"

#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "nlohmann/json.hpp"
#include "scheduler_service/jobs/failure.h"

namespace bole {
namespace {

constexpr char kInvalidType[] = "invalid_request_error";
constexpr char kRateType[] = "rate_limit_error";
constexpr char kServerType[] = "server_error";
// The client has closed the connection, so it never reads this status.
constexpr int kClientClosed = 499;

struct Row {
  int status;
  const char* type;
  const char* code;
};

Row RowOf(RefusalReason reason) {
  switch (reason) {
    case RefusalReason::kQueueRequests:
    case RefusalReason::kQueueTokens:
    case RefusalReason::kQueueBytes:
    case RefusalReason::kTooManyOpen:
    case RefusalReason::kLongMessages:
    case RefusalReason::kHeldOutput:
    case RefusalReason::kTenantBusy:
      return {429, kRateType, NameOf(reason)};
    case RefusalReason::kInvalid:
      return {400, kInvalidType, "invalid_value"};
    case RefusalReason::kUnimplemented:
      return {400, kInvalidType, "unsupported"};
    case RefusalReason::kUnknownModel:
      return {404, kInvalidType, "model_not_found"};
    case RefusalReason::kNoWorker:
    case RefusalReason::kDraining:
      return {503, kServerType, NameOf(reason)};
    case RefusalReason::kCancelled:
      return {kClientClosed, kServerType, NameOf(reason)};
    case RefusalReason::kUnauthenticated:
      return {401, kInvalidType, "invalid_api_key"};
    case RefusalReason::kForbidden:
      return {403, "permission_error", NameOf(reason)};
  }
  return {500, kServerType, "internal_error"};
}

Row RowOf(FailureReason reason) {
  switch (reason) {
    case FailureReason::kCancelled:
      return {kClientClosed, kServerType, NameOf(reason)};
    case FailureReason::kDeadline:
      return {504, kServerType, NameOf(reason)};
    case FailureReason::kNoWorker:
    case FailureReason::kWorkersLost:
    case FailureReason::kDraining:
      return {503, kServerType, NameOf(reason)};
    case FailureReason::kWorkerFailed:
      return {500, kServerType, NameOf(reason)};
    case FailureReason::kSlowReader:
      return {429, kRateType, NameOf(reason)};
  }
  return {500, kServerType, "internal_error"};
}

// For a failure without a FailureReason.
Row RowOf(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kCancelled:
      return RowOf(FailureReason::kCancelled);
    case absl::StatusCode::kDeadlineExceeded:
      return RowOf(FailureReason::kDeadline);
    case absl::StatusCode::kUnavailable:
      return {503, kServerType, "unavailable"};
    case absl::StatusCode::kResourceExhausted:
      return {429, kRateType, "resource_exhausted"};
    default:
      return {500, kServerType, "internal_error"};
  }
}

// The field that holds the prompt in a request of `api`.
const char* InputOf(OpenAiApi api) {
  switch (api) {
    case OpenAiApi::kChat:
      return "messages";
    case OpenAiApi::kCompletions:
      return "prompt";
    case OpenAiApi::kResponses:
      return "input";
  }
  return "";
}

// The name that `api` has for a field of bole.v1.
std::string ParamOf(std::string_view field, OpenAiApi api) {
  const std::string_view whole_inputs[] = {"input", "text", "token_ids", "chat",
                                           "prompt"};
  for (const std::string_view input : whole_inputs) {
    if (field == input) return InputOf(api);
  }
  absl::string_view rest(field.data(), field.size());
  if (absl::ConsumePrefix(&rest, "sampling_params.")) {
    if (api == OpenAiApi::kResponses && rest == "max_tokens") {
      return "max_output_tokens";
    }
    if (api != OpenAiApi::kCompletions && rest == "logprobs") {
      return "top_logprobs";
    }
    return std::string(rest);
  }
  if (absl::ConsumePrefix(&rest, "chat.")) {
    // The input items of the responses API do not correspond to messages, so
    // only the whole input can be named.
    if (api == OpenAiApi::kResponses && absl::StartsWith(rest, "messages")) {
      return InputOf(api);
    }
    return absl::StrReplaceAll(
        rest, {{"tools_json", "tools"},
               {"arguments_json", "function.arguments"},
               {"template_kwargs_json", "chat_template_kwargs"}});
  }
  return absl::StrReplaceAll(
      rest, {{"targets.time_to_first_token_ms", "targets.ttft_ms"},
             {"targets.time_per_output_token_ms", "targets.tpot_ms"}});
}

OpenAiError ErrorOf(const Row& row, std::string message) {
  return {.status = row.status,
          .type = row.type,
          .code = row.code,
          .message = std::move(message)};
}

}  // namespace

std::string OpenAiError::Body() const {
  nlohmann::ordered_json error = {
      {"message", message}, {"type", type}, {"param", nullptr}, {"code", code}};
  if (!param.empty()) error["param"] = param;
  return nlohmann::ordered_json{{"error", std::move(error)}}.dump(
      -1, ' ', /*ensure_ascii=*/false,
      nlohmann::json::error_handler_t::replace);
}

OpenAiError ToOpenAiError(const Refusal& refusal, OpenAiApi api) {
  OpenAiError error = ErrorOf(RowOf(refusal.reason), refusal.message);
  error.retry_after = refusal.retry_after;
  if (refusal.reason == RefusalReason::kUnknownModel) error.param = "model";
  if (refusal.field.empty()) return error;
  error.param = ParamOf(refusal.field, api);
  // A field name without a dot may occur in the message as an ordinary word.
  if (absl::StrContains(refusal.field, ".")) {
    error.message =
        absl::StrReplaceAll(refusal.message, {{refusal.field, error.param}});
  }
  return error;
}

OpenAiError ToOpenAiError(const absl::Status& failure) {
  const auto reason = FailureReasonOf(failure);
  return ErrorOf(reason ? RowOf(*reason) : RowOf(failure.code()),
                 std::string(failure.message()));
}

}  // namespace bole
