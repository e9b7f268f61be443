// A command that all ranks of a model run, each in a process of its own.
#ifndef BOLE_WORKER_SERVICE_EVAL_EVERY_RANK_H_
#define BOLE_WORKER_SERVICE_EVAL_EVERY_RANK_H_

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "kernels/communicator.h"

namespace bole {

// Calls run(ranks) in this process, which is rank 0, and in num_ranks - 1
// copies of it, whose standard output goes nowhere. All of them must make the
// same calls of their backends, so what `run` does depends on its arguments
// alone. With one rank it is called here alone, with null.
//
// Returns what rank 0 came to, or the error of a rank that failed. A rank that
// ends without being done ends the others.
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
