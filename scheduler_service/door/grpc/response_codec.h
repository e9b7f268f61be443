// One request's output as messages of bole.v1.
#ifndef BOLE_SCHEDULER_SERVICE_DOOR_GRPC_RESPONSE_CODEC_H_
#define BOLE_SCHEDULER_SERVICE_DOOR_GRPC_RESPONSE_CODEC_H_

#include <cstddef>
#include <string>

#include "proto/bole.pb.h"
#include "scheduler_service/jobs/request.h"
#include "scheduler_service/jobs/token_stream.h"

namespace bole {

// Turns the deltas of a stream into chunks, and all of them into the complete
// message, for which it keeps every token. Not thread-safe.
class ResponseEncoder {
 public:
  explicit ResponseEncoder(const Request& request);

  // Keeps tokens and text of `delta`, and returns them as a chunk.
  v1::GenerateResponse Add(const TokenDelta& delta);

  // Everything that was added. Call it once, last.
  // COST: linear in the output.
  v1::GenerateResponse Complete(const Completion& completion);

  // The memory of what Add() kept, about: 4 bytes for a token, its text, and
  // the encoded log probabilities.
  size_t kept_bytes() const;

 private:
  v1::GenerateResponse Response() const;

  const std::string id_;
  const bool logprobs_;
  const int num_resumed_;     // Output tokens that the client had before.
  v1::GenerateComplete all_;  // Without log probabilities.
  // Those of all tokens as the encoding of a GenerateComplete: as messages they
  // would take five times as much memory.
  std::string encoded_logprobs_;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_DOOR_GRPC_RESPONSE_CODEC_H_
