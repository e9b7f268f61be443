// What a model is loaded with, on every one of its ranks.
#ifndef BOLE_WORKER_SERVICE_RANKS_RANKED_MODEL_OPTIONS_H_
#define BOLE_WORKER_SERVICE_RANKS_RANKED_MODEL_OPTIONS_H_

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/collectives_kind.h"
#include "worker_service/draft_head.h"
#include "worker_service/draft_weights.h"
#include "worker_service/engine_options.h"
#include "worker_service/engine_sizes.h"

namespace bole {

// What the ranks of a model are.
enum class RankKind {
  kAuto,       // Processes on GPUs, and threads on the CPU.
  kProcesses,  // A process for each, of which the first is this one.
};

struct RankedModelOptions {
  std::string name;            // As LoadModel() takes it.
  std::string device = "cpu";  // As ChooseBackend() reads it.
  CollectivesKind collectives = CollectivesKind::kPush;  // Between GPUs.
  // Threads that compute on the CPU, for all ranks together, one for each at
  // least; 0 means one for each processor.
  int num_threads = 0;
  // Parts that the model is cut into, each with threads and memory of its own;
  // at most kMaxRanks.
  int num_ranks = 1;
  RankKind rank_kind = RankKind::kAuto;
  // What the processes of ranks run: a program whose main() calls
  // RunIfRankProcess() before anything else.
  std::string rank_program = "/proc/self/exe";
  // Once the model is loaded, a rank that the others wait for longer than this
  // ends all of them.
  std::chrono::milliseconds rank_deadline{5000};
  DraftHead draft_head = DraftHead::kAuto;
  DraftWeights draft_weights = DraftWeights::kAuto;
  // num_valid_tokens comes from the checkpoint; sizes of 0 from it and from the
  // device (FitToDevice).
  EngineOptions engine = DefaultEngineOptions();
  double memory_fraction = kDefaultMemoryFraction;  // Share of a GPU's memory.
  // The rounds that are likely are captured before anything is served, for so
  // long at most, and by several ranks all of them; 0: they are captured when
  // they first come.
  std::chrono::seconds warm_up{60};

  int ThreadsOfRank() const;
};

// What a rank needs to know of the options, for a process of the same build:
// all but rank_kind, rank_program and rank_deadline.
std::vector<std::byte> EncodeRankOptions(const RankedModelOptions& options);
// INVALID_ARGUMENT for bytes of another origin.
absl::StatusOr<RankedModelOptions> DecodeRankOptions(
    std::span<const std::byte> bytes);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_RANKS_RANKED_MODEL_OPTIONS_H_
