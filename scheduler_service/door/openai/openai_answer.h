// Converts answers of bole.v1 to OpenAI's: bodies and server-sent events.
#ifndef BOLE_SCHEDULER_SERVICE_DOOR_OPENAI_OPENAI_ANSWER_H_
#define BOLE_SCHEDULER_SERVICE_DOOR_OPENAI_OPENAI_ANSWER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "proto/bole.pb.h"
#include "scheduler_service/door/openai/openai_error.h"
#include "scheduler_service/door/openai/openai_request.h"

namespace bole {

// The answer to one call, made of all messages of its Generate call in their
// order. If the request streams, call AppendEvents() for each and then
// AppendEnd(), or AppendError() if the call fails; else Add() for each and then
// Whole(). Events are appended to `out` as they are sent.
//
// Not thread-safe. COST: linear in what is appended or added; a streamed chat
// or completion keeps no text, a response keeps its own.
class OpenAiAnswer {
 public:
  // `id` names the answer: "chatcmpl-...", "cmpl-..." or "resp_...".
  OpenAiAnswer(const OpenAiRequest& request, std::string id,
               int64_t created_unix_seconds);
  ~OpenAiAnswer();

  void AppendEvents(const v1::GenerateResponse& response, std::string& out);
  // After the last message: appends the usage if it was requested, and the end
  // of the stream.
  void AppendEnd(std::string& out);
  // The call has failed after its first event. Nothing follows, not even
  // [DONE].
  void AppendError(const OpenAiError& error, std::string& out);

  void Add(const v1::GenerateResponse& response);
  // The body with everything that was added. REQUIRES: every choice is
  // complete.
  std::string Whole() const;

  // One API's writer.
  class Writer;

 private:
  const std::unique_ptr<Writer> writer_;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_DOOR_OPENAI_OPENAI_ANSWER_H_
