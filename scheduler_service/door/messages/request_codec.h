// Decodes the requests of bole.v1 and checks them field by field. This runs on
// RPC threads, before the request reaches the scheduler loop.
#ifndef BOLE_SCHEDULER_SERVICE_DOOR_MESSAGES_REQUEST_CODEC_H_
#define BOLE_SCHEDULER_SERVICE_DOOR_MESSAGES_REQUEST_CODEC_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "proto/bole.pb.h"
#include "scheduler_service/door/request_body.h"
#include "scheduler_service/links/worker_client.h"
#include "scheduler_service/models/model_text.h"

namespace bole {

inline constexpr int kMaxDetokenizeIds = 1 << 18;
inline constexpr size_t kMaxCacheSaltBytes = 128;
// The largest bounds that a request may set on what is verified for it.
inline constexpr uint32_t kMaxOverrideNodes = 128;
inline constexpr uint32_t kMaxOverrideDepth = 16;
// The largest latency target of a request: an hour.
inline constexpr uint32_t kMaxTargetMs = 3'600'000;

// Decodes a request to the model that `text` and `worker` describe. The door
// checks the model's name, the id and the prompt.
// INVALID_ARGUMENT, naming the field and its value; UNIMPLEMENTED, naming a
// field that is not supported. COST: linear in the message.
absl::StatusOr<RequestBody> DecodeGenerate(const v1::GenerateRequest& message,
                                           const ModelText& text,
                                           const WorkerDescription& worker);

// Answer a message. INVALID_ARGUMENT as above. COST: O(n log n) in the length
// of the text to tokenize.
absl::StatusOr<v1::TokenizeResponse> Tokenize(
    const v1::TokenizeRequest& message, const ModelText& text);
absl::StatusOr<v1::DetokenizeResponse> Detokenize(
    const v1::DetokenizeRequest& message, const ModelText& text);

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_DOOR_MESSAGES_REQUEST_CODEC_H_
