// A replica with a simulated worker, run round by round.
#ifndef BOLE_TESTS_SCHEDULER_SERVICE_REPLICAS_REPLICA_FIXTURE_H_
#define BOLE_TESTS_SCHEDULER_SERVICE_REPLICAS_REPLICA_FIXTURE_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <random>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/ids.h"
#include "gtest/gtest.h"
#include "scheduler_service/policy/speculation.h"
#include "scheduler_service/replicas/replica.h"
#include "tests/common/tokenizer/tiny_tokenizer.h"
#include "tests/scheduler_service/requests.h"
#include "tests/scheduler_service/simulated_worker.h"

namespace bole::testing {

// What a replica told of one job.
struct Told {
  std::vector<int32_t> tokens;
  std::vector<Displacement> displaced;
  std::vector<absl::StatusOr<MatchedStop>> ends;
};

class ReplicaTest : public ::testing::Test, public ReplicaOwner {
 protected:
  static StepLimits Limits() {
    StepLimits limits = SimulatedWorker::SmallLimits();
    limits.max_lease_rounds = 4;
    return limits;
  }

  void OnAdvanced(Job& job, Job::Progress progress) override {
    for (const EmittedToken& token : progress.tokens) {
      told_[job.id()].tokens.push_back(token.token);
    }
  }
  void OnEnded(Job& job, absl::StatusOr<MatchedStop> end) override {
    told_[job.id()].ends.push_back(std::move(end));
  }
  void OnDisplaced(Job& job, Displacement reason,
                   const absl::Status& why) override {
    told_[job.id()].displaced.push_back(reason);
    why_ = why;
  }

  void Connect() {
    WorkerNews news = worker_.Connect();
    replica_.On(std::get<WorkerConnected>(std::move(news)));
  }
  Job& Make(int prompt_length, int max_tokens) {
    jobs_.push_back(std::make_unique<Job>(
        MakeRequest(RandomPrompt(rng_, prompt_length), max_tokens, now_),
        *tokenizer_));
    return *jobs_.back();
  }
  Job& Place(int prompt_length = 20, int max_tokens = 30) {
    Job& job = Make(prompt_length, max_tokens);
    replica_.Place(job, /*cached_elsewhere=*/0);
    return job;
  }
  void Start(bool others_wait = true) {
    replica_.MakeRoom();
    replica_.StartRound(others_wait, now_);
  }
  void Answer() {
    now_ += std::chrono::milliseconds(10);
    replica_.On(worker_.Run(), now_);
  }
  static std::vector<int32_t> OutputOf(const Job& job) {
    return SimulatedOutput(job.request().prompt,
                           *job.request().sampling.max_tokens);
  }

  std::mt19937 rng_{1};
  TimePoint now_ = TimePoint() + std::chrono::hours(1);
  std::unique_ptr<Tokenizer> tokenizer_ = MakeTinyTokenizer();
  std::vector<std::unique_ptr<Job>> jobs_;
  absl::flat_hash_map<JobId, Told> told_;
  absl::Status why_;
  Metrics metrics_;
  SimulatedWorker worker_{Limits()};
  static ReplicaOptions Options() {
    ReplicaOptions options;
    options.policy.speculation = {.mode = SpeculationMode::kTree,
                                  .shape = {.top_k = 3, .depth = 4},
                                  .nodes = 8};
    return options;
  }
  Replica replica_{
      {.name = "it", .client = &worker_}, Options(), metrics_, *this};
};

}  // namespace bole::testing

#endif  // BOLE_TESTS_SCHEDULER_SERVICE_REPLICAS_REPLICA_FIXTURE_H_
