#include "clients/bench/openai_reader.h"

#include <cstdint>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "clients/bench/openai_failure.h"
#include "common/json.h"
#include "common/status_macros.h"
#include "nlohmann/json.hpp"

namespace bole::bench {
namespace {

using Json = nlohmann::json;

constexpr int kMaxEventDepth = 32;

absl::Status Senseless(const char* what, const Json& value) {
  constexpr size_t kShownBytes = 200;
  std::string shown =
      value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (shown.size() > kShownBytes) shown.replace(kShownBytes, shown.npos, "...");
  return absl::InternalError(
      absl::StrCat("an event's ", what, " makes no sense: ", shown));
}

// The member `name`, or null if it is absent or null itself.
const Json* Find(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

// Puts the number at `name` into `number`, if it is there.
absl::Status ReadCount(const Json& object, const char* name, uint32_t& number) {
  const Json* const found = Find(object, name);
  if (found == nullptr) return absl::OkStatus();
  if (!found->is_number_unsigned() ||
      found->get<uint64_t>() > std::numeric_limits<uint32_t>::max()) {
    return Senseless(name, *found);
  }
  number = found->get<uint32_t>();
  return absl::OkStatus();
}

// Appends the string at `name` to `text`, if it is there.
absl::Status ReadText(const Json& object, const char* name, std::string& text) {
  const Json* const found = Find(object, name);
  if (found == nullptr) return absl::OkStatus();
  if (!found->is_string()) return Senseless(name, *found);
  text += found->get_ref<const std::string&>();
  return absl::OkStatus();
}

absl::Status ReadIds(const Json& ids, v1::GenerateChunk& chunk) {
  if (!ids.is_array()) return Senseless("token_ids", ids);
  for (const Json& id : ids) {
    if (!id.is_number_unsigned() ||
        id.get<uint64_t>() > std::numeric_limits<uint32_t>::max()) {
      return Senseless("token_ids", ids);
    }
    chunk.add_token_ids(id.get<uint32_t>());
  }
  return absl::OkStatus();
}

}  // namespace

std::optional<CallEnd> OpenAiReader::Feed(std::string_view bytes,
                                          const OnResponse& on_response) {
  const absl::Status status = events_.Feed(bytes, [&](std::string_view data) {
    return TakeEvent(data, on_response);
  });
  if (status.ok()) return std::nullopt;
  return failure_ ? failure_ : CallEnd{.status = status};
}

CallEnd OpenAiReader::End() const {
  if (done_) return {.status = absl::OkStatus()};
  return {.status = absl::InternalError("the answer ended without [DONE]")};
}

absl::Status OpenAiReader::TakeEvent(std::string_view data,
                                     const OnResponse& on_response) {
  if (done_) return absl::OkStatus();
  if (data == "[DONE]") {
    done_ = true;
    v1::GenerateResponse response;
    *response.mutable_complete() = complete_;
    on_response(response);
    return absl::OkStatus();
  }
  const absl::StatusOr<Json> event = ParseJson(data, kMaxEventDepth);
  if (!event.ok()) {
    return absl::InternalError(
        absl::StrCat("an event is no JSON: ", event.status().message()));
  }
  if (!event->is_object()) return Senseless("data", *event);
  if (const Json* const error = Find(*event, "error")) {
    failure_ = FailureOfEvent(*error);
    return failure_->status;
  }
  if (const Json* const usage = Find(*event, "usage")) {
    BOLE_RETURN_IF_ERROR(TakeUsage(*usage));
  }
  const Json* const choices = Find(*event, "choices");
  if (choices == nullptr || !choices->is_array() || choices->size() > 1) {
    return Senseless("choices", *event);
  }
  for (const Json& choice : *choices) {
    BOLE_RETURN_IF_ERROR(TakeChoice(choice, on_response));
  }
  return absl::OkStatus();
}

absl::Status OpenAiReader::TakeChoice(const Json& choice,
                                      const OnResponse& on_response) {
  if (!choice.is_object()) return Senseless("choice", choice);
  v1::GenerateChunk& chunk = *chunk_.mutable_chunk();
  chunk.Clear();
  BOLE_RETURN_IF_ERROR(ReadText(choice, "text", *chunk.mutable_text()));
  if (const Json* const delta = Find(choice, "delta")) {
    if (!delta->is_object()) return Senseless("delta", *delta);
    BOLE_RETURN_IF_ERROR(ReadText(*delta, "content", *chunk.mutable_text()));
    BOLE_RETURN_IF_ERROR(ReadText(*delta, "reasoning_content",
                                  *chunk.mutable_reasoning_content()));
  }
  const Json* const ids = Find(choice, "token_ids");
  if (ids != nullptr) {
    BOLE_RETURN_IF_ERROR(ReadIds(*ids, chunk));
  }
  std::string finish;
  BOLE_RETURN_IF_ERROR(ReadText(choice, "finish_reason", finish));
  if (!finish.empty()) {
    complete_.set_finish_reason(finish == "length" ? v1::FINISH_REASON_LENGTH
                                                   : v1::FINISH_REASON_STOP);
  }
  const bool has_text =
      !chunk.text().empty() || !chunk.reasoning_content().empty();
  if (has_text && ids == nullptr) {
    return absl::FailedPreconditionError(
        "the server tells no token_ids: it has to know return_token_ids, as "
        "Bole and vLLM do");
  }
  if (has_text || chunk.token_ids_size() > 0) on_response(chunk_);
  return absl::OkStatus();
}

absl::Status OpenAiReader::TakeUsage(const Json& usage) {
  if (!usage.is_object()) return Senseless("usage", usage);
  uint32_t prompt = 0;
  uint32_t completion = 0;
  uint32_t cached = 0;
  BOLE_RETURN_IF_ERROR(ReadCount(usage, "prompt_tokens", prompt));
  BOLE_RETURN_IF_ERROR(ReadCount(usage, "completion_tokens", completion));
  if (const Json* const details = Find(usage, "prompt_tokens_details")) {
    if (!details->is_object()) return Senseless("usage", usage);
    BOLE_RETURN_IF_ERROR(ReadCount(*details, "cached_tokens", cached));
  }
  complete_.mutable_usage()->set_prompt_tokens(prompt);
  complete_.mutable_usage()->set_completion_tokens(completion);
  complete_.mutable_usage()->set_cached_tokens(cached);
  return absl::OkStatus();
}

}  // namespace bole::bench
