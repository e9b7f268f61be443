// The memory that the scheduler's numbers refer to: state slots and KV pages.
#ifndef BOLE_WORKER_SERVICE_MODEL_SEQUENCE_MEMORY_H_
#define BOLE_WORKER_SERVICE_MODEL_SEQUENCE_MEMORY_H_

#include <cstddef>
#include <vector>

#include "kernels/attention.h"
#include "kernels/gdn.h"
#include "kernels/sampling.h"
#include "kernels/tensor.h"
#include "worker_service/model/device_arrays.h"
#include "worker_service/model/model_config.h"

namespace bole {

// An array with an item for each slot, or for each page.
struct MemoryPart {
  void* first;  // Item 0; null where nothing is allocated.
  size_t item_bytes;
};

// Allocated at start, for the life of the process. The content of a slot or a
// page lives as long as the scheduler lends it, to a request or as a checkpoint
// from which later requests continue. Nothing is cleared in between: a request
// without committed tokens reads neither.
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
  // Those of every full-attention layer and then the drafter's, whose entries
  // are at a KV index that is higher by one (MtpLayer).
  KvPages pages;
  TokenCounts counts;  // For penalties.
  int vocabulary = 0;  // The vocabulary that is counted.
  // [slots, kMaxDraftTail, H] The target's hidden vectors of the committed
  // positions that a drafter has not seen, and of the last position. That of
  // position p is at p % kMaxDraftTail. Null unless they are kept.
  Activation* hidden = nullptr;

  // All of the above again, as the parts that make up a slot and a page.
  std::vector<MemoryPart> slot_parts;
  std::vector<MemoryPart> page_parts;  // Keys and values of each layer.

  // The size of one slot or page, over all layers and the drafter.
  size_t slot_bytes() const;
  size_t page_bytes() const;

 private:
  void AllocatePages(const ModelConfig& config, const Size& size,
                     DeviceArrays& arrays);
};

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_MODEL_SEQUENCE_MEMORY_H_
