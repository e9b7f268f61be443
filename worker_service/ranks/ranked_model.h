// A model that is cut into ranks, with an engine on each, run as one.
#ifndef BOLE_WORKER_SERVICE_RANKS_RANKED_MODEL_H_
#define BOLE_WORKER_SERVICE_RANKS_RANKED_MODEL_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/step.h"
#include "kernels/backend.h"
#include "worker_service/draft_head.h"
#include "worker_service/draft_weights.h"
#include "worker_service/engine.h"
#include "worker_service/engine_sizes.h"
#include "worker_service/loaded_model.h"
#include "worker_service/memory_plan.h"
#include "worker_service/ranks/rank_threads.h"

namespace bole {

// More have nothing to do on any published size.
inline constexpr int kMaxRanks = 16;

struct RankedModelOptions {
  std::string name;            // As LoadModel() takes it.
  std::string device = "cpu";  // As ChooseBackend() reads it.
  // Threads that compute on the CPU, for all ranks together, one for each at
  // least; 0 means one for each processor.
  int num_threads = 0;
  // Parts that the model is cut into, each with threads and memory of its own.
  // More than one on the CPU alone.
  int num_ranks = 1;
  // A rank that the others wait for longer than this ends all of them.
  std::chrono::milliseconds rank_deadline{7000};
  DraftHead draft_head = DraftHead::kAuto;
  DraftWeights draft_weights = DraftWeights::kAuto;
  // num_valid_tokens comes from the checkpoint; sizes of 0 from it and from the
  // device (FitToDevice).
  EngineOptions engine = DefaultEngineOptions();
  double memory_fraction = kDefaultMemoryFraction;  // Share of a GPU's memory.
  // The rounds that are likely are captured before anything is served, for so
  // long at most; 0: they are captured when they first come.
  std::chrono::seconds warm_up{60};
};

// Not thread-safe: one thread at a time, which may be another one for each
// call. Destroying it binds the calling thread to the first rank's backend.
class RankedModel {
 public:
  // Loads the model. Errors say what cannot be read or cut, what does not fit,
  // or which device cannot be used; UNIMPLEMENTED for several ranks on a GPU.
  static absl::StatusOr<std::unique_ptr<RankedModel>> Load(
      const RankedModelOptions& options);
  // The same on backends of the caller's, by rank: `device`, `num_threads` and
  // `num_ranks` are not read. The calling thread must be bound to the first.
  static absl::StatusOr<std::unique_ptr<RankedModel>> LoadOn(
      std::vector<std::unique_ptr<Backend>> backends,
      const RankedModelOptions& options);

  // Runs the plan on all ranks. A round is told when all of them have computed
  // it, and the same. REQUIRES: as Engine::StepValidated(). Any error leaves
  // memory undefined; it names the rank that failed, where there are several.
  absl::Status Step(const StepPlan& plan, const OnRound& on_round);

  int num_ranks() const { return static_cast<int>(ranks_.size()); }
  const LoadedModel& loaded() const { return ranks_[0].model; }
  const StepLimits& limits() const { return engine().limits(); }
  bool has_drafter() const { return engine().has_drafter(); }
  std::string device() const { return ranks_[0].backend->description(); }
  // Whether it has memory of its own, and may hang.
  bool on_gpu() const { return ranks_[0].backend->memory().has_value(); }
  // What each rank has, and uses.
  const EngineOptions& sizes() const { return planned_.options; }
  const MemoryPlan& memory() const { return planned_.memory; }
  // As of the engine: whether rounds are captured, and how many were not.
  bool keeps_graphs() const { return engine().num_graphs() > 0; }
  int64_t graph_misses() const { return engine().graph_misses(); }

 private:
  // Later members use earlier ones.
  struct Part {
    std::unique_ptr<Backend> backend;
    LoadedModel model;
    std::unique_ptr<Engine> engine;
  };

  RankedModel(std::vector<std::unique_ptr<Backend>> backends,
              std::chrono::milliseconds rank_deadline);
  const Engine& engine() const { return *ranks_[0].engine; }
  absl::Status LoadParts(const RankedModelOptions& options);

  const std::chrono::milliseconds rank_deadline_;
  std::vector<Part> ranks_;
  PlannedEngine planned_;
  RankThreads threads_;  // Use the rest.
};

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_RANKS_RANKED_MODEL_H_
