// A rank's part of a model, ready to run plans.
#ifndef BOLE_WORKER_SERVICE_RANKS_RANK_PART_H_
#define BOLE_WORKER_SERVICE_RANKS_RANK_PART_H_

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/communicator.h"
#include "worker_service/engine/engine.h"
#include "worker_service/engine/engine_sizes.h"
#include "worker_service/loading/loaded_model.h"
#include "worker_service/ranks/rank_group.h"
#include "worker_service/ranks/ranked_model_options.h"

namespace bole {

// Makes the backend of a rank. `ranks` is the rank's communicator, null for a
// single rank.
using MakeBackend = std::function<absl::StatusOr<std::unique_ptr<Backend>>(
    const RankedModelOptions& options, std::shared_ptr<Communicator> ranks)>;

// The backend that the options name (ChooseBackend).
absl::StatusOr<std::unique_ptr<Backend>> MakeNamedBackend(
    const RankedModelOptions& options, std::shared_ptr<Communicator> ranks);

// Later members use earlier ones.
struct RankPart {
  std::shared_ptr<Communicator> ranks;  // Null for a single rank.
  std::unique_ptr<Backend> backend;
  LoadedModel model;
  PlannedEngine planned;
  std::unique_ptr<Engine> engine;
};

// Loads a rank's part. All ranks call it together; a single rank passes a null
// `ranks`. Slots, pages and all other sizes are those of the rank that has the
// least room for them. Errors say what cannot be read, cut or used, or what
// does not fit; they end the group. The backend is left bound to the calling
// thread.
absl::StatusOr<std::unique_ptr<RankPart>> LoadPart(
    const MakeBackend& make_backend, std::shared_ptr<Communicator> ranks,
    const RankedModelOptions& options);

// Runs any rank but the first: loads the part that the first message of the
// group describes, and runs the plans that follow until the channel is closed.
// An error ends the group, and `on_error` is called before what was loaded is
// destroyed.
absl::Status FollowFirstRank(const std::shared_ptr<RankGroup>& group, int rank,
                             const MakeBackend& make_backend,
                             const std::function<void()>& on_error);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_RANKS_RANK_PART_H_
