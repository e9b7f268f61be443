// How large an engine is, and how it runs.
#ifndef BOLE_WORKER_SERVICE_ENGINE_ENGINE_OPTIONS_H_
#define BOLE_WORKER_SERVICE_ENGINE_ENGINE_OPTIONS_H_

#include "absl/status/status.h"
#include "common/step.h"
#include "kernels/gdn.h"
#include "worker_service/model/model_config.h"

namespace bole {

// The value of EngineOptions::num_checkpoints that lets FitToDevice() choose.
inline constexpr int kChooseCheckpoints = -1;

struct EngineOptions {
  int max_requests = 8;
  int max_nodes = 256;           // Nodes of a forest.
  int max_nodes_per_tree = 128;  // At most 128.
  int max_prefill_tokens = 512;
  DraftShape max_draft;
  int num_slots = 8;        // For requests.
  int num_checkpoints = 0;  // Slots beyond those, for checkpoints.
  int num_pages = 128;
  // Places in pinned host memory for the content of evicted slots and pages.
  int num_host_slots = 0;
  int num_host_pages = 0;
  // GiB of host memory that FitToDevice() divides into places; 0: the numbers
  // above apply.
  double host_cache_gb = 0;
  int page_size = 64;
  int max_context = 1024;
  // Ids from this one on are padding of the head and are never drawn.
  int num_valid_tokens = 0;
  TreeSolver solver = TreeSolver::kBlocks;
  int max_lease_rounds = kMaxLeaseRounds;
  // Captures rounds once per bucket and replays them, if the backend can.
  bool graphs = true;
  // Times the phases of a round separately (Engine::times), at the cost of a
  // gap between them.
  bool time_phases = false;

  int TotalSlots() const { return num_slots + num_checkpoints; }
  // The widest ancestor mask of a forest, in words.
  int MaskWords() const { return (max_nodes_per_tree + 31) / 32; }
  int MaxPagesPerRequest() const {
    const int kv_rows = max_context + max_draft.num_kv_rows();
    return (kv_rows + page_size - 1) / page_size;
  }
  // The most rows of a forward, which are those of a forest and of the chunks
  // that share it; the most of these that the head runs for; and the most rows
  // of a forward of the drafter.
  int MaxForwardRows() const { return max_nodes + max_prefill_tokens; }
  int MaxHeadRows() const { return max_nodes + max_requests; }
  int MaxDraftRows() const;
};

// INVALID_ARGUMENT, naming the option and its value, for options that
// contradict each other or the model.
absl::Status Validate(const EngineOptions& options, const ModelConfig& config);

// The limits that plans have to respect.
StepLimits LimitsOf(const EngineOptions& options, const ModelConfig& config);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_ENGINE_ENGINE_OPTIONS_H_
