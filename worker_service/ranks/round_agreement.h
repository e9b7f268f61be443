// Whether the ranks of a model have computed the same.
#ifndef BOLE_WORKER_SERVICE_RANKS_ROUND_AGREEMENT_H_
#define BOLE_WORKER_SERVICE_RANKS_ROUND_AGREEMENT_H_

#include <chrono>
#include <cstddef>
#include <deque>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/mutex.h"
#include "common/step.h"

namespace bole {

// Compares what the ranks say of one plan, round by round, before anybody else
// sees it. Ranks that differ once would write different texts from then on.
//
// Thread-safe.
class RoundAgreement {
 public:
  // Rank 0 waits for what another one says for `deadline` at most.
  RoundAgreement(int num_ranks, std::chrono::milliseconds deadline);

  // What a rank >= 1 says of its next round. Does not wait.
  void Say(int rank, StepResult result);
  // The rank says nothing more of this plan.
  void Leave(int rank);

  // Rank 0: waits for all others' next round. OK if it is `result`.
  //   INTERNAL           a rank says something else; names it and the sequence.
  //   UNAVAILABLE        a rank has left without it; names it.
  //   DEADLINE_EXCEEDED  a rank did not come in time; names it.
  absl::Status Compare(const StepResult& result);

 private:
  absl::Status CompareWith(int rank, const StepResult& result)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  struct Said {
    std::deque<StepResult> rounds;  // What rank 0 has not compared yet.
    bool has_left = false;
  };

  const std::chrono::milliseconds deadline_;
  Mutex mutex_;
  CondVar changed_;
  std::vector<Said> said_ ABSL_GUARDED_BY(mutex_);  // By rank; rank 0's unused.
};

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_RANKS_ROUND_AGREEMENT_H_
