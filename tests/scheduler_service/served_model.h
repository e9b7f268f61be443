// The tiny tokenizer as a served model, with limits that are easy to count
// with.
#ifndef BOLE_TESTS_SCHEDULER_SERVICE_SERVED_MODEL_H_
#define BOLE_TESTS_SCHEDULER_SERVICE_SERVED_MODEL_H_

#include <string_view>
#include <utility>

#include "common/chat/chat_template.h"
#include "common/check.h"
#include "proto/protocol_version.h"
#include "scheduler_service/links/worker_client.h"
#include "scheduler_service/models/model_text.h"
#include "tests/common/tokenizer/tiny_tokenizer.h"

namespace bole::testing {

// "role:content;" for every message, then what was said of tools and variables.
inline constexpr std::string_view kTinyTemplate =
    "{% for m in messages %}{{ m.role }}:{{ m.content }};"
    "{% if m.role == 'bad' %}{{ raise_exception('no such role') }}{% endif %}"
    "{% endfor %}{% if tools %}{{ tools | tojson }}{% endif %}{{ extra }}"
    "{% if add_generation_prompt %}assistant:{% endif %}";

inline ModelText TinyText(std::string_view chat_template = kTinyTemplate) {
  ModelText text;
  text.tokenizer = MakeTinyTokenizer();
  absl::StatusOr<ChatTemplate> parsed = ChatTemplate::Parse(chat_template);
  BOLE_CHECK(parsed.ok());
  text.chat_template = *std::move(parsed);
  return text;
}

// A context of 100 tokens, and a vocabulary of 303.
inline WorkerDescription TinyWorker() {
  WorkerDescription worker;
  worker.model = "tiny";
  worker.protocol_version = kProtocolVersion;
  worker.limits = {.max_requests = 4,
                   .max_nodes = 64,
                   .max_nodes_per_tree = 16,
                   .max_prefill_tokens = 64,
                   .max_draft = {.top_k = 2, .depth = 3},
                   .num_slots = 4,
                   .num_pages = 64,
                   .page_size = 8,
                   .max_context = 100,
                   .vocabulary = 303};
  worker.stop_tokens = {300, 302};
  worker.temperature = 0.5f;
  worker.top_k = 20;
  worker.top_p = 0.75f;
  worker.min_p = 0.0625f;
  worker.repetition_penalty = 1.125f;
  return worker;
}

}  // namespace bole::testing

#endif  // BOLE_TESTS_SCHEDULER_SERVICE_SERVED_MODEL_H_
