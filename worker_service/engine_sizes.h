// How large the engine of a worker is, if nobody says otherwise.
#ifndef BOLE_WORKER_SERVICE_ENGINE_SIZES_H_
#define BOLE_WORKER_SERVICE_ENGINE_SIZES_H_

#include "worker_service/engine.h"
#include "worker_service/loaded_model.h"

namespace bole {

// The default context is the model's, but no more than this.
inline constexpr int kMaxDefaultContext = 4096;

// For a CPU machine: 16 requests of 32 nodes. max_context and num_pages are 0,
// for FitToModel() to fill in.
inline EngineOptions DefaultEngineOptions() {
  return {.max_requests = 16,
          .max_nodes = 512,
          .max_nodes_per_tree = 64,
          .max_prefill_tokens = 512,
          .max_draft = {.top_k = 4, .depth = 8},
          .num_slots = 16,
          .num_pages = 0,
          .page_size = 64,
          .max_context = 0,
          .num_valid_tokens = 0};
}

// Takes the ids that may be drawn from the model, and fills in a max_context
// and num_pages of 0: pages for a quarter of the slots at full context, and
// for one at least.
EngineOptions FitToModel(EngineOptions options, const LoadedModel& model);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_ENGINE_SIZES_H_
