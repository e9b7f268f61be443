// A model whose ranks are processes, as a worker runs it.
#include "worker_service/ranks/rank_processes.h"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/step.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker_service/engine/faulty_backend.h"
#include "worker_service/ranks/ranked_model.h"

namespace bole::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using Clock = std::chrono::steady_clock;

// The loss of a process must be noticed within this time. Ranks wait for one
// another for a minute, so it is not their deadline that notices it.
constexpr std::chrono::seconds kSoon(2);

RankedModelOptions SmallModel(int num_ranks) {
  RankedModelOptions options{
      .name = "synthetic:tiny-16,noise=1",
      .num_threads = 1,
      .num_ranks = num_ranks,
      .rank_kind = RankKind::kProcesses,
      .rank_program = "tests/worker_service/ranks/faulty_rank",
      .rank_deadline = std::chrono::seconds(60)};
  options.engine.max_requests = 2;
  options.engine.max_nodes_per_tree = 16;
  options.engine.max_prefill_tokens = 64;
  options.engine.max_context = 256;
  options.engine.max_draft = {.top_k = 2, .depth = 3};
  return options;
}

// The processes that this one has started and not waited for.
std::vector<pid_t> Children() {
  std::vector<pid_t> children;
  for (const auto& folder : std::filesystem::directory_iterator("/proc")) {
    std::ifstream file(folder.path() / "status");  // Only processes have it.
    pid_t parent = 0;
    for (std::string line; std::getline(file, line);) {
      if (line.starts_with("PPid:")) parent = std::stoi(line.substr(5));
    }
    if (parent != getpid()) continue;
    children.push_back(std::stoi(folder.path().filename()));
  }
  return children;
}

// Sets the fault of ranks that start from now on; "" for none (faulty_rank.cc).
void SetFault(const char* fault) {
  // No other thread reads the environment.
  setenv("BOLE_TEST_FAULT", fault, 1);  // NOLINT(concurrency-mt-unsafe)
}

class RankProcessesTest : public ::testing::Test {
 protected:
  void TearDown() override {
    model_.reset();
    EXPECT_EQ(Children(), std::vector<pid_t>());
    SetFault("");
  }

  // Loads the model, runs one step and watches the ranks.
  void Load(const RankedModelOptions& options, const char* fault = "") {
    SetFault(fault);
    auto model = RankedModel::Load(options);
    ASSERT_TRUE(model.ok()) << model.status();
    model_ = *std::move(model);
    ASSERT_EQ(Children().size(), options.num_ranks - 1);
    ASSERT_EQ(Step(), absl::OkStatus());
    model_->WatchRanks(
        [this](const absl::Status& why) { lost_.set_value(why); });
  }

  absl::Status Step() {
    return model_->Step(SmallPlan(), [this](StepResult result) {
      results_.push_back(std::move(result));
    });
  }
  // Waits up to kSoon for the report that a rank was lost, and returns it.
  absl::Status Lost() {
    std::future<absl::Status> lost = lost_.get_future();
    if (lost.wait_for(kSoon) == std::future_status::ready) return lost.get();
    return absl::DeadlineExceededError("nobody was told");
  }

  std::unique_ptr<RankedModel> model_;
  std::vector<StepResult> results_;
  std::promise<absl::Status> lost_;
};

TEST_F(RankProcessesTest, ProcessesSayWhatThreadsSayBitForBit) {
  for (const int num_ranks : {2, 4}) {
    RankedModelOptions options = SmallModel(num_ranks);
    results_.clear();
    options.rank_kind = RankKind::kAuto;
    const auto threads = RankedModel::Load(options);
    ASSERT_TRUE(threads.ok()) << threads.status();
    EXPECT_FALSE((*threads)->has_processes());
    EXPECT_EQ((*threads)->Step(
                  SmallPlan(),
                  [this](StepResult r) { results_.push_back(std::move(r)); }),
              absl::OkStatus());
    options.rank_kind = RankKind::kProcesses;
    const auto processes = RankedModel::Load(options);
    ASSERT_TRUE(processes.ok()) << processes.status();
    EXPECT_TRUE((*processes)->has_processes());
    EXPECT_EQ((*processes)->device(), (*threads)->device());
    EXPECT_EQ(
        (*processes)
            ->Step(SmallPlan(),
                   [this](StepResult r) { results_.push_back(std::move(r)); }),
        absl::OkStatus());
    ASSERT_EQ(results_.size(), 2);
    EXPECT_EQ(results_[0], results_[1]);
  }
}

TEST_F(RankProcessesTest, AKilledProcessEndsTheGroupThoughNoStepRuns) {
  Load(SmallModel(2));
  const pid_t child = Children().at(0);
  const std::string want =
      absl::StrCat("rank 1 of 2 \\(process ", child,
                   "\\) was killed by signal 9 \\(Killed\\)");

  ASSERT_EQ(kill(child, SIGKILL), 0);

  const absl::Status lost = Lost();
  EXPECT_TRUE(absl::IsUnavailable(lost)) << lost;
  EXPECT_THAT(std::string(lost.message()), MatchesRegex(want));
  EXPECT_EQ(Step(), lost);
}

TEST_F(RankProcessesTest, AKilledProcessEndsTheStepThatRuns) {
  Load(SmallModel(4));
  const pid_t child = Children().at(1);
  ASSERT_EQ(kill(child, SIGSTOP), 0);  // So that the step cannot end before.
  std::thread killer([child] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    kill(child, SIGKILL);
  });
  const auto begin = Clock::now();

  const absl::Status status = Step();

  EXPECT_LT(Clock::now() - begin, kSoon);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("of 4 (process "), HasSubstr("signal 9")));
  EXPECT_EQ(Lost(), status);
  EXPECT_EQ(results_.size(), 1);
  killer.join();
}

TEST_F(RankProcessesTest, AProcessThatExitsInAStepIsNamedWithItsStatus) {
  Load(SmallModel(2), "exit");
  const absl::Status status = Step();
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("rank 1 of 2 (process "),
                    HasSubstr("ended with status 7")));
  EXPECT_EQ(results_.size(), 1);
}

TEST_F(RankProcessesTest, AProcessWhoseEngineFailsSaysWhy) {
  Load(SmallModel(2), "error");
  const absl::Status status = Step();
  EXPECT_EQ(status,
            absl::UnavailableError("rank 1 of 2 has left: work on the GPU: "
                                   "cudaErrorIllegalAddress"));
  EXPECT_EQ(Lost(), status);  // The process has ended, too.
  EXPECT_EQ(results_.size(), 1);
}

TEST_F(RankProcessesTest, AProcessThatSaysSomethingElseIsNamedWithTheRound) {
  Load(SmallModel(2), "differ");
  EXPECT_EQ(Step(),
            absl::InternalError("rank 1 differs from rank 0 in round 0"));
  EXPECT_EQ(results_.size(), 1);
}

TEST_F(RankProcessesTest, AStoppedProcessIsNamedWhenTheDeadlineHasPassed) {
  RankedModelOptions options = SmallModel(2);
  options.rank_deadline = std::chrono::milliseconds(1000);
  Load(options);
  ASSERT_EQ(kill(Children().at(0), SIGSTOP), 0);
  const auto begin = Clock::now();
  const absl::Status status = Step();
  EXPECT_LT(Clock::now() - begin, options.rank_deadline + kSoon);
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  // It may have been stopped before it reported that the first step is over.
  EXPECT_THAT(std::string(status.message()),
              MatchesRegex("rank 1 of 2 (did not come to call [0-9]+|"
                           "did not finish) within 1000 ms"));
  EXPECT_EQ(results_.size(), 1);
}

// The first two may be sent to all processes, as by a terminal. It is the first
// rank that drains then.
TEST_F(RankProcessesTest, SignalsOfTheFirstRankEndNoOther) {
  Load(SmallModel(2));
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) {
    ASSERT_EQ(kill(Children().at(0), signal), 0);
  }
  EXPECT_EQ(Step(), absl::OkStatus());
  EXPECT_EQ(results_.size(), 2);
  EXPECT_EQ(results_[0], results_[1]);
}

TEST_F(RankProcessesTest, AProcessHasNoDescriptorsOfTheFirst) {
  Load(SmallModel(2));
  const std::string folder = absl::StrCat("/proc/", Children().at(0), "/fd");
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    const std::string target = std::filesystem::read_symlink(entry.path());
    if (std::stoi(name) <= 2) continue;
    EXPECT_THAT(target, HasSubstr("memfd:bole-ranks")) << name;
  }
  EXPECT_EQ(std::filesystem::read_symlink(folder + "/0"), "/dev/null");
  // Its output goes to the worker's stderr and does not mix with its stdout.
  EXPECT_EQ(std::filesystem::read_symlink(folder + "/1"),
            std::filesystem::read_symlink("/proc/self/fd/2"));
}

TEST_F(RankProcessesTest, WhatKeepsARankFromLoadingIsSaid) {
  SetFault("load");
  EXPECT_EQ(RankedModel::Load(SmallModel(2)).status(),
            absl::UnavailableError("rank 1 of 2 has left: no driver"));
  RankedModelOptions options = SmallModel(2);
  options.rank_program = "no/such/program";
  EXPECT_THAT(std::string(RankedModel::Load(options).status().message()),
              AllOf(HasSubstr("rank 1 cannot be started"),
                    HasSubstr("no/such/program")));
  options.rank_program = "/bin/true";
  EXPECT_THAT(std::string(RankedModel::Load(options).status().message()),
              AllOf(HasSubstr("rank 1 of 2 (process "),
                    HasSubstr("ended with status 0")));
}

}  // namespace
}  // namespace bole::testing
