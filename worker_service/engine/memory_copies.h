// Copies of slots and pages, with which requests leave checkpoints and later
// continue from them.
#ifndef BOLE_WORKER_SERVICE_ENGINE_MEMORY_COPIES_H_
#define BOLE_WORKER_SERVICE_ENGINE_MEMORY_COPIES_H_

#include "absl/status/status.h"
#include "common/step.h"
#include "kernels/device.h"
#include "kernels/operator_set.h"
#include "worker_service/model/sequence_memory.h"

namespace bole {

// Queues the copies of a plan, in their order. REQUIRES: Validate(StepPlan)
// accepts them.
// COST: for each slot, reading and writing SequenceMemory::slot_bytes() in four
// copies; for each page, page_bytes() in two copies for each layer. On a GPU
// the host does not wait for them.
absl::Status QueueCopies(const MemoryCopies& copies,
                         const SequenceMemory& memory, Device& device,
                         OperatorSet& operators);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_ENGINE_MEMORY_COPIES_H_
