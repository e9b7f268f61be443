// The options with which a model is loaded on all of its ranks.
#ifndef BOLE_WORKER_SERVICE_RANKS_RANKED_MODEL_OPTIONS_H_
#define BOLE_WORKER_SERVICE_RANKS_RANKED_MODEL_OPTIONS_H_

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/collectives_kind.h"
#include "worker_service/engine/engine_options.h"
#include "worker_service/engine/engine_sizes.h"
#include "worker_service/loading/draft_head.h"
#include "worker_service/loading/draft_weights.h"

namespace bole {

// Whether the ranks of a model are threads or processes.
enum class RankKind {
  kAuto,       // Processes on GPUs, and threads on the CPU.
  kProcesses,  // One process per rank; the first is this one.
};

struct RankedModelOptions {
  std::string name;            // As LoadModel() takes it.
  std::string device = "cpu";  // As ChooseBackend() takes it.
  CollectivesKind collectives = CollectivesKind::kPush;  // Between GPUs.
  // Compute threads on the CPU, for all ranks together, but at least one for
  // each rank; 0 means one for each processor.
  int num_threads = 0;
  // The number of parts that the model is cut into, each with its own threads
  // and memory; at most kMaxRanks.
  int num_ranks = 1;
  RankKind rank_kind = RankKind::kAuto;
  // The program that the processes of ranks run. Its main() calls
  // RunIfRankProcess() before anything else.
  std::string rank_program = "/proc/self/exe";
  // Once the model is loaded, all ranks end if the others have to wait for one
  // of them for longer than this.
  std::chrono::milliseconds rank_deadline{5000};
  DraftHead draft_head = DraftHead::kAuto;
  DraftWeights draft_weights = DraftWeights::kAuto;
  // num_valid_tokens comes from the checkpoint; sizes that are 0 are derived
  // from the checkpoint and the device (FitToDevice).
  EngineOptions engine = DefaultEngineOptions();
  double memory_fraction = kDefaultMemoryFraction;  // Share of a GPU's memory.
  // The likely rounds are captured before anything is served, for at most this
  // long; with several ranks, all capture those that the first one does. 0:
  // rounds are captured when they first come.
  std::chrono::seconds warm_up{60};

  int ThreadsOfRank() const;
};

// Encodes the options that a rank needs, for a process of the same build: all
// except rank_kind, rank_program and rank_deadline.
std::vector<std::byte> EncodeRankOptions(const RankedModelOptions& options);
// INVALID_ARGUMENT if the bytes do not come from EncodeRankOptions().
absl::StatusOr<RankedModelOptions> DecodeRankOptions(
    std::span<const std::byte> bytes);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_RANKS_RANKED_MODEL_OPTIONS_H_
