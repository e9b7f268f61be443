#include "worker_service/engine/engine_flags.h"

#include "common/draft_shape.h"
#include "common/step.h"
#include "kernels/gdn.h"
#include "worker_service/engine/engine_options.h"

namespace bole {

void AddEngineFlags(CommandLine& command, EngineOptions& options) {
  const auto add = [&command](const char* flag, int& value, const char* help,
                              int low, int high) {
    command.Add(flag, value, help).Range(low, high).Group("Engine sizes");
  };
  add("--max-requests", options.max_requests,
      "requests in one step; 0: 16, on a GPU 32", 0, 4096);
  add("--slots", options.num_slots,
      "requests that keep their state, those that wait included; 0: as "
      "--max-requests",
      0, 1 << 20);
  add("--checkpoints", options.num_checkpoints,
      "slots beyond those for states that later requests go on from; -1: as "
      "many, on a GPU for a quarter of what else would be pages",
      kChooseCheckpoints, 1 << 20);
  add("--context", options.max_context,
      "longest text in tokens; 0: the model's, at most 4096, on a GPU 32768", 0,
      1 << 24);
  add("--pages", options.num_pages,
      "pages for keys and values; 0: for a quarter of the slots at full "
      "context, on a GPU all that fit",
      0, 1 << 24);
  command
      .Add("--host-cache-gb", options.host_cache_gb,
           "GiB of pinned host memory for states and pages that the prefix "
           "cache has no room for on the device")
      .Range(0.0, 16384.0)
      .Group("Engine sizes");
  add("--page-size", options.page_size, "tokens of a page", 1, 1 << 16);
  add("--max-nodes", options.max_nodes,
      "nodes verified in one step; 0: 512, on a GPU 1024 where they take "
      "little "
      "of its memory",
      0, 1 << 16);
  add("--max-nodes-per-request", options.max_nodes_per_tree,
      "nodes verified in one step for one request; 0: 64, on a GPU 128", 0,
      128);
  add("--max-prefill", options.max_prefill_tokens,
      "prompt tokens run in one step; 0: 512, on a GPU 2048", 0, 1 << 20);
  add("--max-draft-top-k", options.max_draft.top_k,
      "children that a drafted node may get", 1, kMaxDraftTopK);
  add("--max-draft-depth", options.max_draft.depth,
      "levels that may be drafted", 1, kMaxDraftDepth);
  command
      .AddChoice(
          "--solver", options.solver,
          {{"blocks", TreeSolver::kBlocks},
           {"neumann", TreeSolver::kNeumann},
           {"serial", TreeSolver::kSerial}},
          "how linear layers verify trees: blocks (substitution), neumann (the "
          "series), or serial, which keeps a state for every node")
      .Group("Engine sizes");
  add("--max-lease-rounds", options.max_lease_rounds,
      "rounds that a scheduler may leave to the device; 0: 1, on a GPU 8", 0,
      kMaxLeaseRounds);
  command
      .AddSwitch("--graphs,!--no-graphs", options.graphs,
                 "capture rounds on a GPU once, and replay them")
      .Group("Engine sizes");
}

}  // namespace bole
