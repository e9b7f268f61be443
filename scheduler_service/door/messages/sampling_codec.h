// Decodes sampling parameters of bole.v1, and fills in those that are absent.
#ifndef BOLE_SCHEDULER_SERVICE_DOOR_MESSAGES_SAMPLING_CODEC_H_
#define BOLE_SCHEDULER_SERVICE_DOOR_MESSAGES_SAMPLING_CODEC_H_

#include <cstddef>

#include "absl/status/statusor.h"
#include "common/sampling_params.h"
#include "proto/bole.pb.h"
#include "scheduler_service/jobs/request.h"
#include "scheduler_service/links/worker_client.h"

namespace bole {

inline constexpr int kMaxStopStrings = 16;
inline constexpr size_t kMaxStopBytes = 256;  // Limit for one stop string.

// The parameters of sampling. An absent one becomes the checkpoint's default if
// it has one, else the default that bole.proto states; an absent seed is drawn
// at random. max_tokens stays unset if it is absent.
//
// INVALID_ARGUMENT, naming the field and its value, unless Validate() holds.
absl::StatusOr<SamplingParams> DecodeSampling(const v1::SamplingParams& message,
                                              const WorkerDescription& worker);

// How output becomes text. INVALID_ARGUMENT, naming the field and its value,
// for too many stop strings, or one that is empty, too long, or not UTF-8.
absl::StatusOr<TextParams> DecodeTextParams(const v1::SamplingParams& message);

// The checkpoint's defaults, as GetModelInfo reports them.
v1::SamplingParams EncodeDefaults(const WorkerDescription& worker);

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_DOOR_MESSAGES_SAMPLING_CODEC_H_
