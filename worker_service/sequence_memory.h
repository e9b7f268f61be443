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
  struct Size {
    int num_slots;
    int num_pages;
    int page_size;
    bool keeps_hidden = false;  // For a drafter.
  };
  // Allocation errors stick in `arrays`.
  SequenceMemory(const ModelConfig& config, const Size& size,
                 DeviceArrays& arrays);

  GdnStates states;    // Every linear layer.
  KvPages pages;       // Every full-attention layer, then the drafter's.
  TokenCounts counts;  // For penalties.
  // [slots, kMaxDraftTail, H] The target's hidden vectors of committed
  // positions that a drafter has not seen, that of position p at
  // p % kMaxDraftTail; null unless they are kept.
  Activation* hidden = nullptr;

  size_t state_bytes;  // Bytes of states, counts and hidden vectors.
  size_t page_bytes;   // Bytes of pages.
};

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_SEQUENCE_MEMORY_H_
