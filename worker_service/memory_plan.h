// What a worker's memory is for.
#ifndef BOLE_WORKER_SERVICE_MEMORY_PLAN_H_
#define BOLE_WORKER_SERVICE_MEMORY_PLAN_H_

#include <cstddef>
#include <string>

namespace bole {

// In bytes. All of it is allocated at start, but for what is set aside.
struct MemoryPlan {
  size_t weights = 0;
  size_t states = 0;    // Recurrent states, windows and token counts.
  size_t kv_pages = 0;  // Keys and values of all layers.
  size_t factors = 0;   // Factors of a forest's nodes.
  size_t logits = 0;
  size_t buffers = 0;  // What else a step works with.
  // Memory that an operator uses within one call.
  size_t scratch = 0;
  size_t set_aside = 0;  // For captured graphs and the code of kernels.

  // For a device with memory of its own; 0 for the host.
  size_t device = 0;  // All that it has.
  size_t usable = 0;  // What this worker may use of it, weights included.

  int num_slots = 0;
  int num_pages = 0;
  int page_size = 0;  // Tokens.

  size_t total() const {
    return weights + states + kv_pages + factors + logits + buffers + scratch +
           set_aside;
  }
};

// "weights 48.4 MiB, states 36.1 MiB (16 slots), ..., total 301.0 MiB"
std::string ToString(const MemoryPlan& plan);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_MEMORY_PLAN_H_
