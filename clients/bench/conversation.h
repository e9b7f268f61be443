// The history of one session, and the request of its next turn.
#ifndef BOLE_CLIENTS_BENCH_CONVERSATION_H_
#define BOLE_CLIENTS_BENCH_CONVERSATION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "clients/bench/workload.h"
#include "proto/bole.pb.h"

namespace bole::bench {

// What follows a prompt in the history of its session.
enum class History {
  kModel,     // The model's own answer.
  kRecorded,  // The file's answer, or as many ids as it names.
};

struct ConversationOptions {
  std::string model = {};  // Empty: the only one that is served.
  bool chat = true;        // Messages go through the model's chat template.
  uint32_t vocab_size = 0;
  uint64_t load_seed = 0;
  History history = History::kModel;
  v1::SamplingParams sampling;  // The file's lengths override max_tokens.
  std::optional<v1::LatencyTargets> targets = std::nullopt;
};

// Not thread-safe. `options` outlives it.
class Conversation {
 public:
  explicit Conversation(const ConversationOptions& options)
      : options_(options) {}

  // Appends the input of `turn` to the history.
  void Extend(const Turn& turn);

  // The request for the last turn that Extend() was called with, `turn`.
  v1::GenerateRequest Request(const Turn& turn) const;

  // Appends the answer to that request, in text and tokens, to the history.
  void Answer(const Turn& turn, const std::string& text,
              const std::vector<uint32_t>& ids);

 private:
  const ConversationOptions& options_;
  std::vector<Message> messages_;
  std::vector<uint32_t> ids_;
};

}  // namespace bole::bench

#endif  // BOLE_CLIENTS_BENCH_CONVERSATION_H_
