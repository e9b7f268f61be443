// Converts the events of OpenAI's completions and chats to responses of
// bole.v1.
#ifndef BOLE_CLIENTS_BENCH_OPENAI_READER_H_
#define BOLE_CLIENTS_BENCH_OPENAI_READER_H_

#include <functional>
#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "clients/bench/sse_reader.h"
#include "clients/bench/transport.h"
#include "nlohmann/json_fwd.hpp"
#include "proto/bole.pb.h"

namespace bole::bench {

// Reads the body of one streamed answer of one choice. The server must send
// `token_ids`, because tokens are counted. A chunk with tokens or text becomes
// a response with a chunk; "[DONE]" becomes one with the complete message: how
// the choice finished, and the usage if the server sent it. Not thread-safe.
class OpenAiReader {
 public:
  using OnResponse = std::function<void(const v1::GenerateResponse&)>;

  // Takes the next bytes of the body. Returns the end of the call if it has
  // failed: by an event that says so, or by one that makes no sense (INTERNAL,
  // or FAILED_PRECONDITION for text without token ids). After that it must not
  // be called again.
  std::optional<CallEnd> Feed(std::string_view bytes,
                              const OnResponse& on_response);

  // The end of a call whose body has ended: OK if "[DONE]" came before.
  CallEnd End() const;

 private:
  absl::Status TakeEvent(std::string_view data, const OnResponse& on_response);
  absl::Status TakeChoice(const nlohmann::json& choice,
                          const OnResponse& on_response);
  absl::Status TakeUsage(const nlohmann::json& usage);

  SseReader events_;
  v1::GenerateResponse chunk_;
  v1::GenerateComplete complete_;
  std::optional<CallEnd> failure_;  // Set by an event with an error.
  bool done_ = false;
};

}  // namespace bole::bench

#endif  // BOLE_CLIENTS_BENCH_OPENAI_READER_H_
