// How large an engine is, and how it runs.
#ifndef BOLE_WORKER_SERVICE_ENGINE_OPTIONS_H_
#define BOLE_WORKER_SERVICE_ENGINE_OPTIONS_H_

#include "absl/status/status.h"
#include "common/step.h"
#include "kernels/gdn.h"
#include "worker_service/model/model_config.h"

namespace bole {

// EngineOptions::num_checkpoints that FitToDevice() is to choose.
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
  // Places of pinned host memory for what slots and pages hold.
  int num_host_slots = 0;
  int num_host_pages = 0;
  // GiB of it that FitToDevice() makes places of; 0: the numbers say.
  double host_cache_gb = 0;
  int page_size = 64;
  int max_context = 1024;
  // Ids at or beyond are padding of the head and are never drawn.
  int num_valid_tokens = 0;
  TreeSolver solver = TreeSolver::kBlocks;
  int max_lease_rounds = kMaxLeaseRounds;
  // Rounds are captured once per bucket and replayed, where the backend can.
  bool graphs = true;
  // Tells the phases of a round apart (Engine::times), at the price of a gap
  // between them.
  bool time_phases = false;

  int TotalSlots() const { return num_slots + num_checkpoints; }
  // The widest ancestor mask of a forest, in words.
  int MaskWords() const { return (max_nodes_per_tree + 31) / 32; }
  int MaxPagesPerRequest() const {
    const int kv_rows = max_context + max_draft.num_kv_rows();
    return (kv_rows + page_size - 1) / page_size;
  }
  // Rows of the longest forward, a forest and the chunks beside it; those of
  // them that the head runs for; and rows of the drafter's longest forward.
  int MaxForwardRows() const { return max_nodes + max_prefill_tokens; }
  int MaxHeadRows() const { return max_nodes + max_requests; }
  int MaxDraftRows() const;
};

// INVALID_ARGUMENT, naming the option and its value, for options that
// contradict each other or the model.
absl::Status Validate(const EngineOptions& options, const ModelConfig& config);

// What plans have to keep to.
StepLimits LimitsOf(const EngineOptions& options, const ModelConfig& config);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_ENGINE_OPTIONS_H_
