#include "scheduler_service/door/request_body.h"

#include <sys/random.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/field_error.h"
#include "common/status_macros.h"
#include "common/tokenizer/utf8.h"
#include "scheduler_service/jobs/output_text.h"

namespace bole {
namespace {

absl::Status CheckId(const std::string& id) {
  BOLE_RETURN_IF_ERROR(
      CheckAtMost(SizeOf("request_id"), id.size(), kMaxRequestIdBytes));
  if (IsValidUtf8(id)) return absl::OkStatus();
  return BadField("request_id", Quoted(id), "UTF-8");
}

absl::Status CheckTokens(const std::string& field, const std::string& of,
                         const std::vector<int32_t>& tokens, int vocabulary) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] >= 0 && tokens[i] < vocabulary) continue;
    return BadField({field, absl::StrCat(of, " token ", i)},
                    static_cast<uint32_t>(tokens[i]),
                    absl::StrCat("[0, ", vocabulary, ")"));
  }
  return absl::OkStatus();
}

absl::Status CheckPrompt(const std::vector<int32_t>& prompt, int capacity,
                         int vocabulary) {
  if (prompt.empty()) {
    return BadField({"input", "the number of prompt tokens"}, 0, "1 and more");
  }
  if (std::ssize(prompt) >= capacity) {
    return AboutField(
        "input",
        absl::InvalidArgumentError(absl::StrCat(
            "the prompt has ", capacity, " tokens or more; the worker holds ",
            capacity, " of a request, at least one of them new")));
  }
  return CheckTokens("input", "prompt", prompt, vocabulary);
}

// Checks that the text continues: nothing in `request.resumed` ends it.
absl::Status CheckResumed(const Request& request, const Tokenizer& tokenizer,
                          int vocabulary) {
  const std::vector<int32_t>& resumed = request.resumed;
  const std::string field = absl::StrCat("resume[", request.choice, "]");
  BOLE_RETURN_IF_ERROR(CheckTokens(field, field, resumed, vocabulary));
  if (std::ssize(resumed) >= *request.sampling.max_tokens) {
    return BadField({field, absl::StrCat("the number of ", field, " tokens")},
                    resumed.size(),
                    absl::StrCat("fewer than max_tokens, which are ",
                                 *request.sampling.max_tokens));
  }
  const std::vector<int32_t>& stops = request.stop_tokens;
  OutputText text(tokenizer, request.text, request.sampling.min_tokens);
  for (size_t i = 0; i < resumed.size(); ++i) {
    if (std::find(stops.begin(), stops.end(), resumed[i]) != stops.end()) {
      return BadField({field, absl::StrCat(field, " token ", i)}, resumed[i],
                      "tokens that do not stop the text");
    }
    text.Push(resumed[i]);
    if (text.matched_stop()) {
      return AboutField(
          field, absl::InvalidArgumentError(absl::StrCat(
                     "the text of ", field, " ends with the stop string ",
                     Quoted(*text.matched_stop()))));
    }
  }
  return absl::OkStatus();
}

// The request's stop tokens, then the model's own that are not among them.
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

// Copies `all` and sets what is specific to choice `i`.
std::unique_ptr<Request> MakeChoice(const Request& all, uint32_t i) {
  auto request = std::make_unique<Request>(all);
  request->choice = i;
  request->sampling.seed += i;
  return request;
}

}  // namespace

std::string MakeUpRequestId() {
  uint64_t bits;
  BOLE_CHECK(getentropy(&bits, sizeof(bits)) == 0);
  return absl::StrCat("bole-", absl::Hex(bits, absl::kZeroPad16));
}

int ContextCapacity(const StepLimits& limits) {
  // As in Placements::Fits(): a sequence needs rows for its tokens and for the
  // drafts that follow them.
  const int64_t rows = int64_t{limits.num_pages} * limits.page_size;
  const int64_t drafted = limits.KvRows(0, 0, limits.max_draft);
  return static_cast<int>(
      std::clamp<int64_t>(rows - drafted, 0, limits.max_context));
}

absl::StatusOr<std::vector<int32_t>> EncodeText(const std::string& text,
                                                const Tokenizer& tokenizer,
                                                EncodeOptions options) {
  BOLE_RETURN_IF_ERROR(CheckAtMost({"text", "the size of the text"},
                                   text.size(), kMaxTextBytes));
  absl::StatusOr<std::vector<int32_t>> ids = tokenizer.Encode(text, options);
  if (!ids.ok()) return InField("text", ids.status());
  return ids;
}

absl::StatusOr<ChoiceRequests> ToRequests(RequestBody body,
                                          const Tokenizer& tokenizer,
                                          const WorkerDescription& worker) {
  BOLE_RETURN_IF_ERROR(CheckId(body.id));
  if (body.priority < -kMaxPriority || body.priority > kMaxPriority) {
    return BadField("priority", body.priority,
                    absl::StrCat("[", -kMaxPriority, ", ", kMaxPriority, "]"));
  }
  Request all;
  all.priority = body.priority;
  all.id = body.id.empty() ? MakeUpRequestId() : std::move(body.id);
  all.stop_tokens = StopTokens(body.sampling, worker);
  all.sampling = std::move(body.sampling);
  all.text = std::move(body.text);
  all.speculation = body.speculation;
  all.targets = body.targets;
  all.cache_salt = std::move(body.cache_salt);
  auto* const text = std::get_if<std::string>(&body.prompt);
  if (text != nullptr) {
    BOLE_ASSIGN_OR_RETURN(all.prompt, EncodeText(*text, tokenizer));
  } else {
    all.prompt = std::get<std::vector<int32_t>>(std::move(body.prompt));
  }
  const int capacity = ContextCapacity(worker.limits);
  const int vocabulary = worker.limits.vocabulary;
  BOLE_RETURN_IF_ERROR(CheckPrompt(all.prompt, capacity, vocabulary));
  const int fits = capacity - static_cast<int>(all.prompt.size());
  all.sampling.max_tokens =
      std::min(all.sampling.max_tokens.value_or(fits), fits);

  ChoiceRequests choices;
  choices.output = std::move(body.output);
  for (uint32_t i = 0; i < body.num_choices; ++i) {
    if (!body.resumed.empty() && body.resumed[i].complete) continue;
    std::unique_ptr<Request> request = MakeChoice(all, i);
    if (!body.resumed.empty()) {
      request->resumed = std::move(body.resumed[i].output);
    }
    BOLE_RETURN_IF_ERROR(CheckResumed(*request, tokenizer, vocabulary));
    choices.requests.push_back(std::move(request));
    all.sampling.prompt_logprobs.reset();
  }
  if (choices.requests.empty()) {
    return AboutField(
        "resume",
        absl::InvalidArgumentError(
            "every choice of resume is complete; nothing is left to do"));
  }
  if (body.echo) {
    choices.echo =
        text != nullptr ? std::move(*text) : tokenizer.Decode(all.prompt);
  }
  return choices;
}

}  // namespace bole
