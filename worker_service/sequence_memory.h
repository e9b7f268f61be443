// The bytes behind the scheduler's numbers: state slots and KV pages.
#ifndef BOLE_WORKER_SERVICE_SEQUENCE_MEMORY_H_
#define BOLE_WORKER_SERVICE_SEQUENCE_MEMORY_H_

#include <cstddef>

#include "kernels/backend.h"
#include "worker_service/device_arrays.h"
#include "worker_service/model/model_config.h"

namespace bole {

// Allocated at start, for the life of the process; the content of a slot or a
// page lives as long as the request that the scheduler gave it to. Nothing is
// cleared in between: a request with no committed tokens reads neither.
struct SequenceMemory {
  // Allocation errors stick in `arrays`.
  SequenceMemory(const ModelConfig& config, int num_slots, int num_pages,
                 int page_size, DeviceArrays& arrays);

  GdnStates states;    // Every linear layer.
  KvPages pages;       // Every full-attention layer, then the drafter's.
  TokenCounts counts;  // For penalties.

  size_t state_bytes;  // Bytes of states and counts.
  size_t page_bytes;   // Bytes of pages.
};

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_SEQUENCE_MEMORY_H_
