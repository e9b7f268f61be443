// What a worker's memory is for.
#ifndef BOLE_WORKER_SERVICE_MEMORY_PLAN_H_
#define BOLE_WORKER_SERVICE_MEMORY_PLAN_H_

#include <cstddef>
#include <string>

namespace bole {

// In bytes, all allocated at start.
struct MemoryPlan {
  size_t weights = 0;
  size_t states = 0;    // Recurrent states, windows and token counts.
  size_t kv_pages = 0;  // Keys and values of all layers.
  size_t buffers = 0;   // What a step works with.

  size_t total() const { return weights + states + kv_pages + buffers; }
};

// "weights 48.4 MiB, states 36.1 MiB, ..., total 301.0 MiB"
std::string ToString(const MemoryPlan& plan);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_MEMORY_PLAN_H_
