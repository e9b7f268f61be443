// How large the engine of a worker is, if nobody says otherwise.
#ifndef BOLE_WORKER_SERVICE_ENGINE_SIZES_H_
#define BOLE_WORKER_SERVICE_ENGINE_SIZES_H_

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "worker_service/engine.h"
#include "worker_service/loaded_model.h"
#include "worker_service/memory_plan.h"

namespace bole {

// The default context is the model's, but no more than this.
inline constexpr int kMaxDefaultContext = 4096;
inline constexpr int kMaxDefaultGpuContext = 32768;

// The share of a GPU's memory that a worker uses by default.
inline constexpr double kDefaultMemoryFraction = 0.9;

// The share of what would be pages otherwise that checkpoints get on a GPU, and
// how many there are at most for each slot of a request. A state is as many
// bytes as the pages of one or two thousand tokens, which is how much longer a
// text gets with a turn; but the texts of the requests that run need none.
inline constexpr double kCheckpointShare = 0.25;
inline constexpr int kMostCheckpointsOfSlot = 16;

// The share of the host's places for states; the rest is for pages.
inline constexpr double kHostSlotShare = 0.25;

// What the driver takes as a worker runs: for a captured graph, and for the
// code of kernels, which it loads when they are first launched.
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

// For a CPU: takes the ids that may be drawn from the model, and fills in sizes
// of 0: 16 requests, 512 nodes in all, the model's context up to
// kMaxDefaultContext, as many checkpoints as slots for requests, pages for a
// quarter of these at full context, and for one at least, and no leases:
// nothing waits for a CPU's host.
EngineOptions FitToModel(EngineOptions options, const LoadedModel& model);

// What an engine on a machine looks like.
struct PlannedEngine {
  EngineOptions options;
  MemoryPlan memory;
};

// As FitToModel() on a backend that uses the host's memory. On a GPU, sizes
// given as 0 get larger defaults (of nodes where they would take no more than a
// tenth of what the weights leave), and 0 pages become as many as fit into
// `memory_fraction` of the GPU's memory after everything else, but at most what
// all requests' slots need at full context. Checkpoints that are to be chosen
// get their share before, of what the pages of one request leave.
//
// On any machine EngineOptions::host_cache_gb becomes places on the host.
//
// RESOURCE_EXHAUSTED, saying what does not fit, by how much, and which flag to
// change; INVALID_ARGUMENT for a host_cache_gb that holds no state or no page.
// REQUIRES: the model has been loaded into `backend`.
absl::StatusOr<PlannedEngine> FitToDevice(EngineOptions options,
                                          const LoadedModel& model,
                                          Backend& backend,
                                          double memory_fraction);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_ENGINE_SIZES_H_
