// A worker's answers without its computation: 16 requests that each bring 116
// candidates, as a top-k of 4 and a depth of 8 make them.
#ifndef BOLE_TESTS_BENCH_CANNED_WORKER_H_
#define BOLE_TESTS_BENCH_CANNED_WORKER_H_

#include <memory>
#include <random>
#include <vector>

#include "common/step.h"
#include "scheduler_service/jobs/request.h"
#include "scheduler_service/links/worker_client.h"

namespace bole {

inline constexpr DraftShape kCannedShape{.top_k = 4, .depth = 8};
inline constexpr int kCannedRequests = 16;
// The tokens of a round: three drafts and the target's own token.
inline constexpr int kCannedTokens = 4;

class CannedWorker {
 public:
  static WorkerDescription Description();

  // What a worker could have answered: as many drafts as make kCannedTokens are
  // accepted, or as many as the deepest path of a tree has.
  StepResult Answer(const StepPlan& plan);

 private:
  ProposalTree Candidates(int32_t root);

  std::mt19937 random_{1};
};

// Requests that live for `rounds` rounds or a few more, and whose output nobody
// is told of.
std::vector<std::unique_ptr<Request>> CannedRequests(int rounds);

}  // namespace bole

#endif  // BOLE_TESTS_BENCH_CANNED_WORKER_H_
