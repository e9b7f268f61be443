// Copies of slots and pages, with which requests leave checkpoints and go on
// from them.
#ifndef BOLE_WORKER_SERVICE_MEMORY_COPIES_H_
#define BOLE_WORKER_SERVICE_MEMORY_COPIES_H_

#include "absl/status/status.h"
#include "common/step.h"
#include "kernels/device.h"
#include "kernels/operator_set.h"
#include "worker_service/sequence_memory.h"

namespace bole {

// Queues the copies of a plan, in their order. REQUIRES: Validate(StepPlan)
// accepts them.
// COST: what reading and writing SequenceMemory::slot_bytes() takes for each
// slot, in four copies, and page_bytes() for each page, in two copies for each
// layer; on a GPU the host waits for none of it.
absl::Status QueueCopies(const MemoryCopies& copies,
                         const SequenceMemory& memory, Device& device,
                         OperatorSet& operators);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_MEMORY_COPIES_H_
