// Runs a command on all ranks of a model, each in a process of its own.
#ifndef BOLE_WORKER_SERVICE_EVAL_EVERY_RANK_H_
#define BOLE_WORKER_SERVICE_EVAL_EVERY_RANK_H_

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "kernels/communicator.h"

namespace bole {

// Calls run(ranks) in this process, which is rank 0, and in num_ranks - 1
// copies of it, whose standard output is discarded. All of them must make the
// same calls to their backends, so `run` must depend on its arguments alone.
// With one rank it is called in this process only, with null.
//
// Returns the result of rank 0, or the error of a rank that failed. A rank that
// ends before it is done ends the others.
// REQUIRES: this process has no other thread yet, and has used no GPU.
absl::Status OnEveryRank(
    int num_ranks,
    const std::function<absl::Status(std::shared_ptr<Communicator> ranks)>&
        run);

// Whether this process writes results.
inline bool IsFirst(const Communicator* ranks) {
  return ranks == nullptr || ranks->rank().index == 0;
}

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_EVAL_EVERY_RANK_H_
