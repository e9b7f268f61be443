// The bytes behind the scheduler's numbers: state slots and KV pages.
#ifndef BOLE_WORKER_SERVICE_SEQUENCE_MEMORY_H_
#define BOLE_WORKER_SERVICE_SEQUENCE_MEMORY_H_

#include <cstddef>
#include <vector>

#include "kernels/attention.h"
#include "kernels/gdn.h"
#include "kernels/sampling.h"
#include "kernels/tensor.h"
#include "worker_service/device_arrays.h"
#include "worker_service/model/model_config.h"

namespace bole {

// An array with an item for each slot, or for each page.
struct MemoryPart {
  void* first;  // Item 0; null where nothing is allocated.
  size_t item_bytes;
};

// Allocated at start, for the life of the process; the content of a slot or a
// page lives as long as the scheduler lends it, to a request or as a checkpoint
// that later requests go on from. Nothing is cleared in between: a request with
// no committed tokens reads neither.
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

  GdnStates states;  // Every linear layer.
  // Every full-attention layer, then the drafter's, whose entries lie one KV
  // index further (MtpLayer).
  KvPages pages;
  TokenCounts counts;  // For penalties.
  int vocabulary = 0;  // Of the counts.
  // [slots, kMaxDraftTail, H] The target's hidden vectors of committed
  // positions that a drafter has not seen, and of the last one, that of
  // position p at p % kMaxDraftTail; null unless they are kept.
  Activation* hidden = nullptr;

  // All of the above once more, as what a slot consists of and a page.
  std::vector<MemoryPart> slot_parts;
  std::vector<MemoryPart> page_parts;  // Keys and values of each layer.

  // What one slot or page holds, all layers and the drafter's together.
  size_t slot_bytes() const;
  size_t page_bytes() const;

 private:
  void AllocatePages(const ModelConfig& config, const Size& size,
                     DeviceArrays& arrays);
};

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_SEQUENCE_MEMORY_H_
