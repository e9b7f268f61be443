// What a worker says of itself.
#ifndef BOLE_SCHEDULER_SERVICE_WORKER_DESCRIPTION_CODEC_H_
#define BOLE_SCHEDULER_SERVICE_WORKER_DESCRIPTION_CODEC_H_

#include "absl/status/statusor.h"
#include "proto/worker.pb.h"
#include "scheduler_service/worker_client.h"

namespace bole {

// INVALID_ARGUMENT, naming the field and its value, unless the limits make
// sense and requests can be drawn with the defaults and stop tokens.
absl::StatusOr<WorkerDescription> DecodeDescription(
    const worker::v1::DescribeResponse& message);

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_WORKER_DESCRIPTION_CODEC_H_
