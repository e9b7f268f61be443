// A client's request as the codec of its protocol read it, and its conversion
// to tokenized requests.
#ifndef BOLE_SCHEDULER_SERVICE_DOOR_REQUEST_BODY_H_
#define BOLE_SCHEDULER_SERVICE_DOOR_REQUEST_BODY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "common/chat/output/output_format.h"
#include "common/sampling_params.h"
#include "common/step.h"
#include "common/tokenizer/tokenizer.h"
#include "scheduler_service/jobs/request.h"
#include "scheduler_service/links/worker_client.h"
#include "scheduler_service/policy/speculation.h"

namespace bole {

inline constexpr size_t kMaxRequestIdBytes = 128;
inline constexpr int kMaxPriority = 100;
// The most bytes of text that is tokenized, as sent or as rendered, and of the
// text that ids become.
inline constexpr size_t kMaxTextBytes = 2 << 20;

// The most texts that one message may ask for.
inline constexpr uint32_t kMaxChoices = 16;

// The part of a choice that the client has already.
struct ResumedChoice {
  std::vector<int32_t> output = {};
  bool complete = false;  // The client has all of it.
};

struct RequestBody {
  std::string id;  // Empty: one is generated.
  // Ids, or text, in which special tokens are parsed.
  std::variant<std::vector<int32_t>, std::string> prompt;
  uint32_t num_choices = 1;            // At most kMaxChoices.
  std::vector<ResumedChoice> resumed;  // None, or one for each choice.
  bool echo = false;                   // The answer is to include the prompt.
  // How the output is parsed; null: it is text.
  std::shared_ptr<const OutputFormat> output = nullptr;
  SamplingParams sampling;  // Validate() holds; max_tokens may be absent.
  TextParams text;
  int priority = 0;
  std::optional<SpeculationOverride> speculation = std::nullopt;
  LatencyTargets targets = {};
  std::string cache_salt = {};  // The same as in Request.
};

// The requests of one message.
struct ChoiceRequests {
  // One for each choice that is to run, in order; at least one.
  std::vector<std::unique_ptr<Request>> requests;
  // The text of the prompt, if the answer is to include it: the text that was
  // tokenized, or else that of the ids.
  std::optional<std::string> echo;
  std::shared_ptr<const OutputFormat> output = nullptr;  // As in RequestBody.
};

// "bole-" and 16 digits, which no other request has.
std::string MakeUpRequestId();

// How many tokens a request may have, prompt and output together: the context,
// or fewer if the worker's pages cannot hold one.
int ContextCapacity(const StepLimits& limits);

// The ids of a client's text. INVALID_ARGUMENT if it is longer than
// kMaxTextBytes, or no text. COST: O(n log n) of the text.
absl::StatusOr<std::vector<int32_t>> EncodeText(const std::string& text,
                                                const Tokenizer& tokenizer,
                                                EncodeOptions options = {});

// Returns the requests, without tenant, size, arrival, deadline and stream.
// They differ in their choice numbers, in their seeds, to which the choice
// number is added, and in what is resumed; only the first reports log
// probabilities of the prompt. If max_tokens is absent, or more than fits after
// the prompt, it becomes what fits; the model's stop tokens are added to the
// request's unless it ignores them.
//
// INVALID_ARGUMENT, naming the field and its value: the id is too long or not
// UTF-8, the priority is out of range, the prompt is empty, too long, or has a
// token that the worker does not know, or what is resumed has one, is not
// shorter than max_tokens, or has ended, or all choices are complete.
// COST: that of EncodeText(), and a copy of the prompt for each choice.
absl::StatusOr<ChoiceRequests> ToRequests(RequestBody body,
                                          const Tokenizer& tokenizer,
                                          const WorkerDescription& worker);

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_DOOR_REQUEST_BODY_H_
