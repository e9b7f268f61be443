// The default sizes of a worker's engine.
#ifndef BOLE_WORKER_SERVICE_ENGINE_ENGINE_SIZES_H_
#define BOLE_WORKER_SERVICE_ENGINE_ENGINE_SIZES_H_

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "worker_service/engine/engine.h"
#include "worker_service/engine/memory_plan.h"
#include "worker_service/loading/loaded_model.h"

namespace bole {

// The default context is the model's, but no more than this.
inline constexpr int kMaxDefaultContext = 4096;
inline constexpr int kMaxDefaultGpuContext = 32768;

// The share of a GPU's memory that a worker uses by default.
inline constexpr double kDefaultMemoryFraction = 0.9;

// On a GPU, the share of the memory that would otherwise be pages that
// checkpoints get, and the most checkpoints for each slot of a request. A state
// takes as many bytes as the pages of one or two thousand tokens, which is how
// much a text grows in one turn of a conversation. The share is smaller than
// that suggests because running requests need pages but no checkpoints.
inline constexpr double kCheckpointShare = 0.25;
inline constexpr int kMostCheckpointsOfSlot = 16;

// The share of the host cache that holds states; the rest holds pages.
inline constexpr double kHostSlotShare = 0.25;

// The memory that the driver allocates while a worker runs: for one captured
// graph, and for the code of all kernels, which it loads at their first launch.
inline constexpr size_t kGraphBytes = size_t{4} << 20;
inline constexpr size_t kCodeBytes = size_t{256} << 20;

// Sizes of 0, and kChooseCheckpoints, are filled in by FitToModel() or
// FitToDevice().
inline EngineOptions DefaultEngineOptions() {
  return {.max_requests = 0,
          .max_nodes = 0,
          .max_nodes_per_tree = 0,
          .max_prefill_tokens = 0,
          .max_draft = {.top_k = 4, .depth = 8},
          .num_slots = 0,
          .num_checkpoints = kChooseCheckpoints,
          .num_pages = 0,
          .page_size = 64,
          .max_context = 0,
          .num_valid_tokens = 0,
          .max_lease_rounds = 0};
}

// For a CPU. Takes the number of valid token ids from the model, and fills in
// sizes of 0: 16 requests, 512 nodes in all, the model's context up to
// kMaxDefaultContext, as many checkpoints as slots for requests, pages for a
// quarter of these slots at full context but for at least one, and no leases,
// which gain nothing where the host itself computes.
EngineOptions FitToModel(EngineOptions options, const LoadedModel& model);

// The options and the memory of an engine on a particular machine.
struct PlannedEngine {
  EngineOptions options;
  MemoryPlan memory;
};

// Like FitToModel() on a backend that uses the host's memory. On a GPU, sizes
// given as 0 get larger defaults (for nodes only if those would take no more
// than a tenth of the memory that the weights leave), and 0 pages become as
// many as fit into `memory_fraction` of the GPU's memory after everything else,
// but at most as many as all requests' slots need at full context. Before that,
// kChooseCheckpoints gets its share of the memory that remains after the pages
// of one request at full context.
//
// On any machine EngineOptions::host_cache_gb is divided into host places.
//
// RESOURCE_EXHAUSTED, saying what does not fit, by how much, and which flag to
// change; INVALID_ARGUMENT for a host_cache_gb that holds no state or no page.
// REQUIRES: the model has been loaded into `backend`.
absl::StatusOr<PlannedEngine> FitToDevice(EngineOptions options,
                                          const LoadedModel& model,
                                          Backend& backend,
                                          double memory_fraction);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_ENGINE_ENGINE_SIZES_H_
