// What the flight recorder has of a replica's rounds.
#include "scheduler_service/replicas/round_flight.h"

#include <chrono>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_split.h"
#include "common/flight/flight_recorder.h"
#include "common/json.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "scheduler_service/policy/speculation.h"
#include "scheduler_service/replicas/replica.h"
#include "scheduler_service/watch/round_record.h"
#include "tests/common/tokenizer/tiny_tokenizer.h"
#include "tests/scheduler_service/requests.h"
#include "tests/scheduler_service/simulated_worker.h"

namespace bole {
namespace {

using ::bole::testing::MakeRequest;
using ::bole::testing::MakeTinyTokenizer;
using ::bole::testing::RandomPrompt;
using ::bole::testing::SimulatedWorker;

class RoundFlightTest : public ::testing::Test, public ReplicaOwner {
 protected:
  RoundFlightTest() {
    WorkerNews news = worker_.Connect();
    replica_.On(std::get<WorkerConnected>(std::move(news)));
  }

  void OnAdvanced(Job&, Job::Progress) override {}
  void OnEnded(Job&, absl::StatusOr<MatchedStop>) override {}
  void OnDisplaced(Job&, Displacement, const absl::Status&) override {}

  static StepLimits Limits() {
    StepLimits limits = SimulatedWorker::SmallLimits();
    limits.max_lease_rounds = 4;
    return limits;
  }
  ReplicaOptions Options() {
    ReplicaOptions options;
    options.policy.speculation = {.mode = SpeculationMode::kTree,
                                  .shape = {.top_k = 3, .depth = 4},
                                  .nodes = 8};
    options.policy.lease_rounds = 4;
    options.flight = {.recorder = &recorder_,
                      .worker_number = 7,
                      .on_fault = [this] { ++num_faults_; }};
    return options;
  }

  Job& Place() {
    jobs_.push_back(std::make_unique<Job>(
        MakeRequest(RandomPrompt(rng_, /*length=*/20), /*max_tokens=*/40, now_),
        *tokenizer_));
    replica_.Place(*jobs_.back(), /*cached_elsewhere=*/0);
    return *jobs_.back();
  }
  void Start(bool others_wait) {
    replica_.MakeRoom();
    replica_.StartRound(others_wait, now_);
  }

  // What the recorder has, parsed.
  std::vector<nlohmann::json> Rounds() const {
    const std::vector<std::string> lines =
        absl::StrSplit(recorder_.ToJsonLines(), '\n', absl::SkipEmpty());
    std::vector<nlohmann::json> rounds;
    for (const std::string& line : lines) {
      rounds.push_back(*ParseJson(line, /*max_depth=*/1));
    }
    return rounds;
  }

  std::mt19937 rng_{1};
  TimePoint now_ = TimePoint() + std::chrono::hours(1);
  std::unique_ptr<Tokenizer> tokenizer_ = MakeTinyTokenizer();
  std::vector<std::unique_ptr<Job>> jobs_;
  Metrics metrics_;
  SimulatedWorker worker_{Limits()};
  FlightRecorder recorder_{RoundFields(), 64};
  int num_faults_ = 0;
  Replica replica_{
      {.name = "it", .client = &worker_}, Options(), metrics_, *this};
};

TEST_F(RoundFlightTest, ARoundIsThereFromItsSendingOn) {
  Place();
  Start(/*others_wait=*/true);

  ASSERT_EQ(Rounds().size(), 1u);
  const nlohmann::json round = Rounds()[0];
  EXPECT_EQ(round["outcome"], "on_its_way");
  EXPECT_EQ(round["worker"], 7);
  EXPECT_EQ(round["plan"], 1);
  EXPECT_EQ(round["prefills"], 1);
  EXPECT_EQ(round["prefill_tokens"], 20);
  EXPECT_EQ(round["running"], 1);
  EXPECT_EQ(round["others_wait"], 1);
}

TEST_F(RoundFlightTest, EveryRoundOfALeaseHasARecordOfWhatItBrought) {
  const Job& job = Place();
  while (replica_.num_running() > 0) {
    if (replica_.free()) Start(/*others_wait=*/false);
    now_ += std::chrono::milliseconds(10);
    replica_.On(worker_.Run(), now_);
  }

  int emitted = 0;
  int accepted = 0;
  int later_rounds = 0;
  for (const nlohmann::json& round : Rounds()) {
    EXPECT_EQ(round["outcome"], "done") << round;
    EXPECT_LE(round["nodes"], round["budget"]) << round;
    emitted += round["emitted"].get<int>();
    accepted += round["accepted"].get<int>();
    later_rounds += round["round"] > 0 ? 1 : 0;
  }
  EXPECT_EQ(emitted, job.num_output());
  EXPECT_GT(accepted, 0);
  EXPECT_GT(later_rounds, 0);
  EXPECT_EQ(num_faults_, 0);
}

TEST_F(RoundFlightTest, ARoundThatIsLostIsAFault) {
  Place();
  Start(/*others_wait=*/true);
  now_ += std::chrono::hours(1);
  replica_.CheckDeadline(now_);

  EXPECT_FALSE(replica_.connected());
  EXPECT_EQ(Rounds().back()["outcome"], "lost");
  EXPECT_EQ(num_faults_, 1);
}

TEST_F(RoundFlightTest, AWorkerThatIsLostIdleIsNoFault) {
  replica_.On(WorkerLost{worker_.epoch(), absl::UnavailableError("unplugged")},
              now_);
  EXPECT_EQ(num_faults_, 0);
  EXPECT_TRUE(Rounds().empty());
}

TEST_F(RoundFlightTest, APlanThatIsRefusedIsToldAsThat) {
  Place();
  Start(/*others_wait=*/true);
  WorkerOutcome refusal = worker_.Run();
  refusal.result = absl::InvalidArgumentError("no");
  replica_.On(std::move(refusal), now_);
  EXPECT_EQ(Rounds().back()["outcome"], "refused");
  EXPECT_EQ(num_faults_, 0);
}

}  // namespace
}  // namespace bole
