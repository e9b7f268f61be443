// Decodes the description that a worker gives of itself.
#ifndef BOLE_SCHEDULER_SERVICE_LINKS_WORKER_DESCRIPTION_CODEC_H_
#define BOLE_SCHEDULER_SERVICE_LINKS_WORKER_DESCRIPTION_CODEC_H_

#include "absl/status/statusor.h"
#include "proto/worker.pb.h"
#include "scheduler_service/links/worker_client.h"

namespace bole {

// FAILED_PRECONDITION if the worker's protocol version differs from ours by
// more than 1. INVALID_ARGUMENT, naming the field and its value, unless the
// limits make sense, requests can be drawn with the defaults and stop tokens,
// buckets ascend, and a table of costs can be read.
absl::StatusOr<WorkerDescription> DecodeDescription(
    const worker::v1::DescribeResponse& message);

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_LINKS_WORKER_DESCRIPTION_CODEC_H_
