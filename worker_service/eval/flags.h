// Command-line flags that several commands share.
#ifndef BOLE_WORKER_SERVICE_EVAL_FLAGS_H_
#define BOLE_WORKER_SERVICE_EVAL_FLAGS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/command_line.h"
#include "kernels/backend.h"
#include "kernels/collectives_kind.h"
#include "kernels/communicator.h"
#include "worker_service/eval/generator.h"
#include "worker_service/loading/draft_head.h"
#include "worker_service/loading/draft_weights.h"
#include "worker_service/loading/loaded_model.h"

namespace bole {

// The checkpoint and what runs it.
struct ModelFlags {
  std::string name;            // As LoadModel() takes it.
  std::string device = "cpu";  // As ChooseBackend() reads it.
  int num_threads = 0;         // 0: one for each processor.
  int num_ranks = 1;           // Processes that run the command together.
  CollectivesKind collectives = CollectivesKind::kPush;
  DraftHead draft_head = DraftHead::kAuto;
  DraftWeights draft_weights = DraftWeights::kAuto;

  void AddTo(CommandLine& command);
  // Also adds --ranks, for commands that run OnEveryRank().
  void AddRanksTo(CommandLine& command);
};

// A loaded checkpoint together with its backend.
struct RunningModel {
  std::unique_ptr<Backend> backend;
  LoadedModel model;
};
// `ranks` is this rank's end of the group, or null if there is only one rank.
absl::StatusOr<RunningModel> Load(
    const ModelFlags& flags, std::shared_ptr<Communicator> ranks = nullptr);

// Like Load(), but returns an error if the checkpoint has no tokenizer.
absl::StatusOr<RunningModel> LoadWithTokenizer(
    const ModelFlags& flags, std::shared_ptr<Communicator> ranks = nullptr);

struct GenerateFlags {
  GenerateFlags() { sampling.temperature = 0; }

  std::string speculation = "tree";  // off, chain, tree
  DraftShape shape;
  int nodes = 32;  // Nodes of a tree, its root included.
  int max_tokens = 256;
  int batch = 1;
  int lease_rounds = 1;
  bool ignore_eos = false;
  SamplingParams sampling;

  void AddTo(CommandLine& command);

  // The options that these flags stand for. INVALID_ARGUMENT: they need a
  // drafter and the checkpoint has none.
  absl::StatusOr<GenerateOptions> Options(const LoadedModel& model) const;
  GenerateRequest Request(std::vector<int32_t> prompt,
                          const LoadedModel& model) const;
};

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_EVAL_FLAGS_H_
