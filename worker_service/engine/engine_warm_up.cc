// The part of the engine that captures rounds before they are needed.
#include <vector>

#include "common/status_macros.h"
#include "worker_service/engine/engine.h"

namespace bole {

// Kernels read their counts on the device. So a round without requests launches
// all of them but changes no slot and no page, and takes little time.
void Engine::FillNothing(const RoundShape& shape) {
  rows_.Fill(HostRows(), {});
  sampling_.Fill({});
  FillLease({.budget = shape.rows});
  if (shape.draft) drafter_->Fill(/*num_requests=*/0);
}

absl::Status Engine::WarmUp(const RoundShape& shape) {
  BindRound(shape, up_, down_);
  FillNothing(shape);
  BOLE_RETURN_IF_ERROR(Upload({}));
  // These rounds are not counted in num_rounds_, so that the first round that
  // is counted has no idle time before it.
  BOLE_RETURN_IF_ERROR(Replay(shape, /*index=*/0, num_rounds_));
  // The choice of the next forest is in no graph, but is run here because the
  // first launch of a kernel loads its code.
  if (options_.max_lease_rounds > 1) {
    BOLE_RETURN_IF_ERROR(QueueNextForest(shape));
  }
  // Wait, because the block is filled again for the next shape.
  BOLE_RETURN_IF_ERROR(device_.SetMark(kPrefillMark));
  return device_.AwaitMark(kPrefillMark);
}

absl::Status Engine::WarmUp(const OnProgress& on_progress) {
  if (graphs_->capacity() == 0) return absl::OkStatus();
  BOLE_RETURN_IF_ERROR(failure_);
  const std::vector<RoundShape> shapes =
      ReachableShapes(UsualProfile(options_, has_drafter()), options_);
  const int total = static_cast<int>(shapes.size());
  const int64_t before = graphs_->num_misses();
  for (int done = 0;; ++done) {
    BOLE_ASSIGN_OR_RETURN(const bool goes_on, on_progress(done, total));
    if (!goes_on || done == total) break;
    failure_ = WarmUp(shapes[static_cast<size_t>(done)]);
    BOLE_RETURN_IF_ERROR(failure_);
  }
  warmed_up_ += graphs_->num_misses() - before;
  return absl::OkStatus();
}

}  // namespace bole
