// One request's output as messages of bole.v1.
#ifndef BOLE_SCHEDULER_SERVICE_RESPONSE_CODEC_H_
#define BOLE_SCHEDULER_SERVICE_RESPONSE_CODEC_H_

#include <string>

#include "proto/bole.pb.h"
#include "scheduler_service/request.h"
#include "scheduler_service/token_stream.h"

namespace bole {

// Turns what a stream delivers into chunks, and all of it into the complete
// message. Not thread-safe.
class ResponseEncoder {
 public:
  explicit ResponseEncoder(const Request& request);

  // Notes tokens and text of `delta`, and returns them as a chunk.
  v1::GenerateResponse Add(const TokenDelta& delta);

  // Everything that was added. Call it once, last.
  v1::GenerateResponse Complete(const Completion& completion);

 private:
  v1::GenerateResponse Response() const;

  const std::string id_;
  const bool logprobs_;
  v1::GenerateComplete all_;  // So far.
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_RESPONSE_CODEC_H_
