// What clients ask in bole.v1, checked and in tokens. Nothing a client sends
// passes here unchecked; RPC threads run this, before the loop hears of it.
#ifndef BOLE_SCHEDULER_SERVICE_REQUEST_CODEC_H_
#define BOLE_SCHEDULER_SERVICE_REQUEST_CODEC_H_

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "common/step.h"
#include "proto/bole.pb.h"
#include "scheduler_service/model_text.h"
#include "scheduler_service/request.h"
#include "scheduler_service/worker_client.h"

namespace bole {

inline constexpr size_t kMaxRequestIdBytes = 128;
// Of text that is tokenized, as sent or as rendered, and of text that ids
// become.
inline constexpr size_t kMaxTextBytes = 2 << 20;
inline constexpr int kMaxDetokenizeIds = 1 << 18;

// How many tokens a request may have, prompt and output together: the context,
// or fewer if the worker's pages cannot hold one.
int ContextCapacity(const StepLimits& limits);

// The request, without arrival, deadline and stream. Its id is made up if the
// message has none. max_tokens that is absent, or more than fits behind the
// prompt, becomes what fits.
//
//   NOT_FOUND         `model` is not what the worker runs.
//   INVALID_ARGUMENT  a field is wrong: the message names it and its value.
//
// COST: linear in the message, and tokenizing: O(n log n) of the text.
absl::StatusOr<std::unique_ptr<Request>> DecodeGenerate(
    const v1::GenerateRequest& message, const ModelText& text,
    const WorkerDescription& worker);

// Answers a message. INVALID_ARGUMENT as above.
absl::StatusOr<v1::TokenizeResponse> Tokenize(
    const v1::TokenizeRequest& message, const ModelText& text);
absl::StatusOr<v1::DetokenizeResponse> Detokenize(
    const v1::DetokenizeRequest& message, const ModelText& text);

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_REQUEST_CODEC_H_
