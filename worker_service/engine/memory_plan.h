// What a worker's memory is used for.
#ifndef BOLE_WORKER_SERVICE_ENGINE_MEMORY_PLAN_H_
#define BOLE_WORKER_SERVICE_ENGINE_MEMORY_PLAN_H_

#include <algorithm>
#include <cstddef>
#include <string>

namespace bole {

// Device memory of an engine, in bytes.
struct EngineMemory {
  size_t states = 0;   // Recurrent states, windows and token counts.
  size_t pages = 0;    // Keys and values.
  size_t factors = 0;  // Factors of a forest, from verification to commit.
  size_t logits = 0;   // The target's logits.
  size_t buffers = 0;  // Everything else that a step works with.
  size_t scratch = 0;  // The most that one operator uses within a call.

  size_t total() const {
    return states + pages + factors + logits + buffers + scratch;
  }
};

// In bytes. Everything is allocated at start, except what is set aside.
struct MemoryPlan {
  size_t weights = 0;
  size_t states = 0;    // All slots', checkpoints included.
  size_t kv_pages = 0;  // Keys and values of all layers.
  size_t factors = 0;   // Factors of a forest's nodes.
  size_t logits = 0;
  size_t buffers = 0;  // Everything else that a step works with.
  // Memory that an operator uses within one call.
  size_t scratch = 0;
  size_t set_aside = 0;  // For captured graphs and the code of kernels.

  // For a device with memory of its own; 0 if it uses the host's.
  size_t device = 0;  // Its total memory.
  size_t usable = 0;  // What this worker may use of it, weights included.

  int num_slots = 0;  // For requests.
  int num_checkpoints = 0;
  int num_pages = 0;
  int page_size = 0;  // Tokens.

  // Pinned memory of the host, which total() does not include, and the numbers
  // of slots and pages in it.
  size_t host_cache = 0;
  int num_host_slots = 0;
  int num_host_pages = 0;

  size_t total() const {
    return weights + states + kv_pages + factors + logits + buffers + scratch +
           set_aside;
  }
  // The size of one slot or page; 0 if there is none.
  size_t slot_bytes() const {
    return states / std::max(1, num_slots + num_checkpoints);
  }
  size_t page_bytes() const { return kv_pages / std::max(1, num_pages); }
};

// "weights 48.4 MiB, states 72.2 MiB (16 slots and 16 for checkpoints), ...,
// total 337.1 MiB"
std::string ToString(const MemoryPlan& plan);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_ENGINE_MEMORY_PLAN_H_
