#include "scheduler_service/request_codec.h"

#include <sys/random.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/status_macros.h"
#include "common/tokenizer/utf8.h"
#include "scheduler_service/chat_codec.h"
#include "scheduler_service/field_error.h"
#include "scheduler_service/sampling_codec.h"

namespace bole {
namespace {

std::string MakeUpId() {
  uint64_t bits;
  BOLE_CHECK(getentropy(&bits, sizeof(bits)) == 0);
  return absl::StrCat("bole-", absl::Hex(bits, absl::kZeroPad16));
}

absl::Status CheckId(const std::string& id) {
  BOLE_RETURN_IF_ERROR(
      CheckAtMost("the size of request_id", id.size(), kMaxRequestIdBytes));
  if (IsValidUtf8(id)) return absl::OkStatus();
  return BadField("request_id", Quoted(id), "UTF-8");
}

absl::StatusOr<std::vector<int32_t>> Encode(const std::string& text,
                                            const Tokenizer& tokenizer,
                                            EncodeOptions options = {}) {
  BOLE_RETURN_IF_ERROR(
      CheckAtMost("the size of the text", text.size(), kMaxTextBytes));
  absl::StatusOr<std::vector<int32_t>> ids = tokenizer.Encode(text, options);
  if (!ids.ok()) return InField("text", ids.status());
  return ids;
}

// The prompt, its length and the range of its tokens still unchecked.
absl::StatusOr<std::vector<int32_t>> DecodePrompt(
    const v1::GenerateRequest& message, const ModelText& text, int capacity) {
  switch (message.input_case()) {
    case v1::GenerateRequest::kTokenized: {
      const auto& ids = message.tokenized().input_ids();
      // No copy of what is too long.
      const int num_read = std::min(ids.size(), capacity + 1);
      return std::vector<int32_t>(ids.begin(), ids.begin() + num_read);
    }
    case v1::GenerateRequest::kText:
      return Encode(message.text(), *text.tokenizer);
    case v1::GenerateRequest::kChat: {
      BOLE_ASSIGN_OR_RETURN(const std::string rendered,
                            RenderChat(message.chat(), text));
      return Encode(rendered, *text.tokenizer);
    }
    case v1::GenerateRequest::INPUT_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError(
      "input is not set; allowed is one of tokenized, text and chat");
}

absl::Status CheckPrompt(const std::vector<int32_t>& prompt, int capacity,
                         int vocabulary) {
  if (prompt.empty()) {
    return BadField("the number of prompt tokens", 0, "1 and more");
  }
  if (std::ssize(prompt) >= capacity) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the prompt has ", capacity, " tokens or more; the worker holds ",
        capacity, " of a request, at least one of them new"));
  }
  for (size_t i = 0; i < prompt.size(); ++i) {
    if (prompt[i] >= 0 && prompt[i] < vocabulary) continue;
    return BadField(absl::StrCat("prompt token ", i),
                    static_cast<uint32_t>(prompt[i]),
                    absl::StrCat("[0, ", vocabulary, ")"));
  }
  return absl::OkStatus();
}

// The request's, then the model's own that are not among them.
std::vector<int32_t> StopTokens(const SamplingParams& sampling,
                                const WorkerDescription& worker) {
  std::vector<int32_t> tokens = sampling.stop_token_ids;
  if (sampling.ignore_eos) return tokens;
  for (const int32_t token : worker.stop_tokens) {
    if (std::find(tokens.begin(), tokens.end(), token) == tokens.end()) {
      tokens.push_back(token);
    }
  }
  return tokens;
}

}  // namespace

int ContextCapacity(const StepLimits& limits) {
  // As Batch::Fits(): a sequence needs rows for its tokens and for what is
  // drafted behind them.
  const int64_t rows = int64_t{limits.num_pages} * limits.page_size;
  const int64_t drafted = limits.KvRows(0, 0, limits.max_draft);
  return static_cast<int>(
      std::clamp<int64_t>(rows - drafted, 0, limits.max_context));
}

absl::StatusOr<std::unique_ptr<Request>> DecodeGenerate(
    const v1::GenerateRequest& message, const ModelText& text,
    const WorkerDescription& worker) {
  BOLE_RETURN_IF_ERROR(CheckId(message.request_id()));
  if (!message.model().empty() && message.model() != worker.model) {
    return absl::NotFoundError(
        absl::StrCat("model is ", Quoted(message.model()), "; served is '",
                     worker.model, "'"));
  }
  auto request = std::make_unique<Request>();
  request->id =
      message.request_id().empty() ? MakeUpId() : message.request_id();
  request->bytes = message.ByteSizeLong();
  BOLE_ASSIGN_OR_RETURN(request->sampling,
                        DecodeSampling(message.sampling_params(), worker));
  BOLE_ASSIGN_OR_RETURN(request->text,
                        DecodeTextParams(message.sampling_params()));
  request->stop_tokens = StopTokens(request->sampling, worker);

  const int capacity = ContextCapacity(worker.limits);
  BOLE_ASSIGN_OR_RETURN(request->prompt, DecodePrompt(message, text, capacity));
  BOLE_RETURN_IF_ERROR(
      CheckPrompt(request->prompt, capacity, worker.limits.vocabulary));
  const int fits = capacity - static_cast<int>(request->prompt.size());
  request->sampling.max_tokens =
      std::min(request->sampling.max_tokens.value_or(fits), fits);
  return request;
}

absl::StatusOr<v1::TokenizeResponse> Tokenize(
    const v1::TokenizeRequest& message, const ModelText& text) {
  v1::TokenizeResponse response;
  switch (message.input_case()) {
    case v1::TokenizeRequest::kText:
      response.set_text(message.text());
      break;
    case v1::TokenizeRequest::kChat: {
      BOLE_ASSIGN_OR_RETURN(*response.mutable_text(),
                            RenderChat(message.chat(), text));
      break;
    }
    case v1::TokenizeRequest::INPUT_NOT_SET:
      return absl::InvalidArgumentError(
          "input is not set; allowed is one of text and chat");
  }
  const bool parse =
      !message.has_parse_special_tokens() || message.parse_special_tokens();
  BOLE_ASSIGN_OR_RETURN(const std::vector<int32_t> ids,
                        Encode(response.text(), *text.tokenizer,
                               {.parse_special_tokens = parse}));
  response.mutable_input_ids()->Add(ids.begin(), ids.end());
  return response;
}

absl::StatusOr<v1::DetokenizeResponse> Detokenize(
    const v1::DetokenizeRequest& message, const ModelText& text) {
  BOLE_RETURN_IF_ERROR(
      CheckAtMost("the number of ids", message.ids_size(), kMaxDetokenizeIds));
  const auto num_ids = static_cast<uint32_t>(text.tokenizer->num_ids());
  size_t num_bytes = 0;
  for (int i = 0; i < message.ids_size(); ++i) {
    const uint32_t id = message.ids(i);
    if (id >= num_ids) {
      return BadField(absl::StrCat("ids[", i, "]"), id,
                      absl::StrCat("[0, ", num_ids, ")"));
    }
    num_bytes += text.tokenizer->TokenBytes(static_cast<int32_t>(id)).size();
  }
  BOLE_RETURN_IF_ERROR(
      CheckAtMost("the size of the text of ids", num_bytes, kMaxTextBytes));
  const std::vector<int32_t> ids(message.ids().begin(), message.ids().end());
  v1::DetokenizeResponse response;
  response.set_text(text.tokenizer->Decode(ids, message.skip_special_tokens()));
  return response;
}

}  // namespace bole
