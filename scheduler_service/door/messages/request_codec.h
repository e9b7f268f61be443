// What clients ask in bole.v1, checked field by field. RPC threads run this,
// before the loop hears of it.
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
// Of a request's own bounds on what is verified for it.
inline constexpr uint32_t kMaxOverrideNodes = 128;
inline constexpr uint32_t kMaxOverrideDepth = 16;
// Of a request's targets: an hour.
inline constexpr uint32_t kMaxTargetMs = 3'600'000;

// What is asked of the model that `text` and `worker` stand for. The model's
// name is the door's to check, and so are the id and the prompt.
// INVALID_ARGUMENT, naming the field and its value; UNIMPLEMENTED, naming a
// field that is not offered. COST: linear in the message.
absl::StatusOr<RequestBody> DecodeGenerate(const v1::GenerateRequest& message,
                                           const ModelText& text,
                                           const WorkerDescription& worker);

// Answers a message. INVALID_ARGUMENT as above. COST: tokenizing: O(n log n) of
// the text.
absl::StatusOr<v1::TokenizeResponse> Tokenize(
    const v1::TokenizeRequest& message, const ModelText& text);
absl::StatusOr<v1::DetokenizeResponse> Detokenize(
    const v1::DetokenizeRequest& message, const ModelText& text);

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_DOOR_MESSAGES_REQUEST_CODEC_H_
