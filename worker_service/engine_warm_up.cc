// The engine's part for rounds that are captured before they are needed.
#include <algorithm>
#include <vector>

#include "common/status_macros.h"
#include "worker_service/engine.h"

namespace bole {

// Kernels look at counts that are on the device: a round without requests runs
// all of them, touches no slot and no page, and takes little time.
void Engine::FillNothing(const RoundShape& shape) {
  rows_.Fill(HostRows(), {});
  sampling_.Fill({});
  FillLease({.budget = shape.rows});
  if (shape.draft) drafter_->Fill(/*num_requests=*/0);
}

absl::Status Engine::WarmUp(const RoundShape& shape) {
  LayRound(shape, up_, down_);
  FillNothing(shape);
  BOLE_RETURN_IF_ERROR(Upload({}));
  // These rounds are not counted: the first that is has no round before it to
  // have been idle after.
  BOLE_RETURN_IF_ERROR(Replay(shape, /*index=*/0, num_rounds_));
  // No graph has it, but the first launch of a kernel loads its code.
  if (options_.max_lease_rounds > 1) {
    BOLE_RETURN_IF_ERROR(QueueNextForest(shape));
  }
  // The block is filled anew for the next shape.
  BOLE_RETURN_IF_ERROR(backend_.SetMark(kPrefillMark));
  return backend_.AwaitMark(kPrefillMark);
}

absl::Status Engine::WarmUp(std::chrono::steady_clock::time_point deadline,
                            const OnProgress& on_progress) {
  if (graphs_->capacity() == 0) return absl::OkStatus();
  BOLE_RETURN_IF_ERROR(failure_);
  const std::vector<RoundShape> shapes =
      ReachableShapes(UsualProfile(options_, has_drafter()), options_);
  const int64_t before = graphs_->num_misses();
  int done = 0;
  for (const RoundShape& shape : shapes) {
    if (std::chrono::steady_clock::now() >= deadline) break;
    failure_ = WarmUp(shape);
    BOLE_RETURN_IF_ERROR(failure_);
    on_progress(++done, static_cast<int>(shapes.size()));
  }
  warmed_up_ += graphs_->num_misses() - before;
  return absl::OkStatus();
}

}  // namespace bole
