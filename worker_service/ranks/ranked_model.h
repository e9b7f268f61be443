// A model that is cut into ranks, with an engine on each, run as one.
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
#include "worker_service/engine.h"
#include "worker_service/loaded_model.h"
#include "worker_service/memory_plan.h"
#include "worker_service/ranks/plan_channel.h"
#include "worker_service/ranks/rank_group.h"
#include "worker_service/ranks/rank_part.h"
#include "worker_service/ranks/rank_processes.h"
#include "worker_service/ranks/ranked_model_options.h"

namespace bole {

// The first rank runs on the caller's thread; the others are threads or
// processes that follow it, and run the same code (FollowFirstRank).
//
// Not thread-safe: one thread at a time, which may be another one for each
// call. The destructor binds the calling thread to the first rank's backend.
// Once a step has failed, it may wait for a device that hangs.
class RankedModel {
 public:
  // Loads the model. Errors say what cannot be read or cut, what does not fit,
  // or which device cannot be used.
  static absl::StatusOr<std::unique_ptr<RankedModel>> Load(
      const RankedModelOptions& options);
  // The same with other backends, which `make_backend` makes for each rank that
  // is no process of its own, on the thread that drives it.
  static absl::StatusOr<std::unique_ptr<RankedModel>> LoadOn(
      const MakeBackend& make_backend, const RankedModelOptions& options);
  ~RankedModel();

  RankedModel(const RankedModel&) = delete;
  RankedModel& operator=(const RankedModel&) = delete;

  // Runs the plan on all ranks. A round is told when all of them have computed
  // it, and the same. REQUIRES: as Engine::StepValidated(). Any error leaves
  // memory undefined; it names the rank that failed, where there are several.
  absl::Status Step(const StepPlan& plan, const OnRound& on_round);

  // As RankProcesses::Watch(): calls `on_lost` once if a rank's process has
  // ended, whether a step runs or not. Ranks that are threads are never lost.
  void WatchRanks(RankProcesses::OnLost on_lost);

  int num_ranks() const { return group_ == nullptr ? 1 : group_->num_ranks(); }
  bool has_processes() const { return processes_ != nullptr; }
  const LoadedModel& loaded() const { return part_->model; }
  const StepLimits& limits() const { return engine().limits(); }
  bool has_drafter() const { return engine().has_drafter(); }
  std::string device() const { return part_->backend->description(); }
  // Whether it has memory of its own, and may hang.
  bool on_gpu() const { return part_->backend->memory().has_value(); }
  // What each rank has; and what the first one uses.
  const EngineOptions& sizes() const { return part_->planned.options; }
  const MemoryPlan& memory() const { return part_->planned.memory; }
  // As of the engine: whether rounds are captured, and how many were not.
  bool keeps_graphs() const { return engine().num_graphs() > 0; }
  int64_t graph_misses() const { return engine().graph_misses(); }

 private:
  RankedModel() = default;
  const Engine& engine() const { return *part_->engine; }
  absl::Status LoadParts(const MakeBackend& make_backend,
                         const RankedModelOptions& options);
  absl::Status StartOthers(const MakeBackend& make_backend,
                           const RankedModelOptions& options);

  // Null, and absent, for an only rank.
  std::shared_ptr<RankGroup> group_;
  std::optional<PlanSender> plans_;
  // The other ranks are one of these.
  std::vector<std::thread> threads_;
  std::unique_ptr<RankProcesses> processes_;
  std::unique_ptr<RankPart> part_;  // The first rank's.
};

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_RANKS_RANKED_MODEL_H_
