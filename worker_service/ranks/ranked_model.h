// A model that is cut into ranks, each with its own engine, and that runs as
// one.
#ifndef BOLE_WORKER_SERVICE_RANKS_RANKED_MODEL_H_
#define BOLE_WORKER_SERVICE_RANKS_RANKED_MODEL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/step.h"
#include "worker_service/engine/engine.h"
#include "worker_service/engine/memory_plan.h"
#include "worker_service/loading/loaded_model.h"
#include "worker_service/ranks/plan_channel.h"
#include "worker_service/ranks/rank_group.h"
#include "worker_service/ranks/rank_part.h"
#include "worker_service/ranks/rank_processes.h"
#include "worker_service/ranks/ranked_model_options.h"

namespace bole {

// The first rank runs on the caller's thread; the others are threads or
// processes that follow it, and run the same code (FollowFirstRank).
//
// Not thread-safe: one thread may call it at a time, not necessarily always the
// same one. The destructor binds the calling thread to the first rank's
// backend. After a step has failed, the destructor may wait for a device that
// hangs.
class RankedModel {
 public:
  // Loads the model. Errors say what cannot be read or cut, what does not fit,
  // or which device cannot be used.
  static absl::StatusOr<std::unique_ptr<RankedModel>> Load(
      const RankedModelOptions& options);
  // The same with other backends, which `make_backend` makes for each rank that
  // is not a separate process, on the thread that drives the rank.
  static absl::StatusOr<std::unique_ptr<RankedModel>> LoadOn(
      const MakeBackend& make_backend, const RankedModelOptions& options);
  ~RankedModel();

  RankedModel(const RankedModel&) = delete;
  RankedModel& operator=(const RankedModel&) = delete;

  // Runs the plan on all ranks. A round is reported once all ranks have
  // computed it with the same result. REQUIRES: as Engine::StepValidated(). Any
  // error leaves memory undefined; with several ranks it names the one that
  // failed.
  absl::Status Step(const StepPlan& plan, const OnRound& on_round);

  // As RankProcesses::Watch(): calls `on_lost` once if the process of a rank
  // has ended, even if no step runs. Ranks that are threads are never lost.
  void WatchRanks(RankProcesses::OnLost on_lost);

  int num_ranks() const { return group_ == nullptr ? 1 : group_->num_ranks(); }
  bool has_processes() const { return processes_ != nullptr; }
  const LoadedModel& loaded() const { return part_->model; }
  const StepLimits& limits() const { return engine().limits(); }
  bool has_drafter() const { return engine().has_drafter(); }
  std::string device() const { return part_->backend->description(); }
  // Whether the device has memory of its own; such a device may hang.
  bool on_gpu() const { return part_->backend->memory().has_value(); }
  // The sizes of each rank's engine, and the memory that the first rank uses.
  const EngineOptions& sizes() const { return part_->planned.options; }
  const MemoryPlan& memory() const { return part_->planned.memory; }
  // From the engine: whether rounds are captured as graphs, and how many had
  // none.
  bool keeps_graphs() const { return engine().num_graphs() > 0; }
  int64_t graph_misses() const { return engine().graph_misses(); }

 private:
  RankedModel() = default;
  const Engine& engine() const { return *part_->engine; }
  absl::Status LoadParts(const MakeBackend& make_backend,
                         const RankedModelOptions& options);
  absl::Status StartOthers(const MakeBackend& make_backend,
                           const RankedModelOptions& options);

  // These are null and absent for a single rank.
  std::shared_ptr<RankGroup> group_;
  std::optional<PlanSender> plans_;
  // The other ranks are either threads or processes.
  std::vector<std::thread> threads_;
  std::unique_ptr<RankProcesses> processes_;
  std::unique_ptr<RankPart> part_;  // The first rank's.
};

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_RANKS_RANKED_MODEL_H_
