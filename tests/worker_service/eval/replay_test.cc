#include "worker_service/eval/replay.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "tests/worker_service/eval/demo_model.h"
#include "worker_service/engine/engine.h"
#include "worker_service/engine/engine_sizes.h"
#include "worker_service/loop/recorder.h"

namespace bole {
namespace {

using ::bole::testing_support::DemoModel;

// Every machine adds and multiplies in the same order; only exp and log of its
// C library may differ in the last bit, 6e-8 of the result. Logits are below
// 32 in magnitude and eight layers amplify an error less than a hundredfold:
// 2e-4 in a logit, twice that in a log-probability, four of which make a
// log_rho.
constexpr float kTolerance = 2e-3f;

std::vector<RecordedStep> Steps(const std::string& name) {
  absl::StatusOr<std::vector<RecordedStep>> steps =
      ReadRecording("tests/golden/steps/" + name + ".binpb");
  EXPECT_TRUE(steps.ok()) << steps.status();
  return steps.ok() ? *std::move(steps) : std::vector<RecordedStep>();
}

std::unique_ptr<Engine> FreshEngine(EngineOptions sizes) {
  DemoModel& demo = DemoModel::Get();
  auto engine = Engine::Create(demo.model().config, *demo.model().weights,
                               demo.backend(), FitToModel(sizes, demo.model()));
  EXPECT_TRUE(engine.ok()) << engine.status();
  return *std::move(engine);
}

class GoldenStepsTest : public ::testing::TestWithParam<const char*> {};

TEST_P(GoldenStepsTest, GiveTheirResultsAgain) {
  const std::vector<RecordedStep> steps = Steps(GetParam());
  ASSERT_GT(steps.size(), 5u);
  const auto engine = FreshEngine(DefaultEngineOptions());

  const absl::StatusOr<ReplayReport> report =
      Replay(*engine, steps, kTolerance);

  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->equal, steps.size())
      << "step " << report->first_different.value_or(0) << ": "
      << report->first_difference;
}

INSTANTIATE_TEST_SUITE_P(Files, GoldenStepsTest,
                         ::testing::Values("greedy_chunked", "seeded_penalties",
                                           "trees"),
                         [](const auto& info) {
                           return std::string(info.param);
                         });

TEST(ReplayTest, SaysWhichStepDiffersFirstAndGoesOn) {
  std::vector<RecordedStep> steps = Steps("seeded_penalties");
  ASSERT_GT(steps.size(), 4u);
  steps[2].results[0].sequences[1].emitted[0].token += 1;
  steps[3].results[0].sequences[0].committed += 1;
  const auto engine = FreshEngine(DefaultEngineOptions());

  const absl::StatusOr<ReplayReport> report =
      Replay(*engine, steps, kTolerance);

  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->equal, steps.size() - 2);
  EXPECT_EQ(report->first_different, std::optional<size_t>(2));
  EXPECT_NE(report->first_difference.find("sequence 1: emitted 0: token is"),
            std::string::npos)
      << report->first_difference;
}

// What a worker leaves that was killed, or failed at its last plan.
TEST(ReplayTest, RunsThePlanThatHasNoResults) {
  std::vector<RecordedStep> steps = Steps("seeded_penalties");
  steps.resize(4);
  steps.back().results.clear();
  const auto engine = FreshEngine(DefaultEngineOptions());

  const absl::StatusOr<ReplayReport> report =
      Replay(*engine, steps, kTolerance);

  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->equal, 3u);
  EXPECT_TRUE(report->has_incomplete);
  EXPECT_EQ(report->first_different, std::nullopt);
}

TEST(ReplayTest, NamesThePlanThatASmallerEngineRefuses) {
  const std::vector<RecordedStep> steps = Steps("trees");
  EngineOptions sizes = DefaultEngineOptions();
  sizes.num_slots = 2;
  sizes.num_checkpoints = 0;
  const auto engine = FreshEngine(sizes);

  const absl::Status status = Replay(*engine, steps, kTolerance).status();

  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(std::string(status.message()).rfind("step 0: ", 0), 0u) << status;
}

TEST(FirstDifferenceTest, NamesTheField) {
  StepResult want;
  want.sequences.resize(1);
  want.sequences[0].emitted = {
      {.token = 3, .logprob = -1, .top = {{.token = 3, .logprob = -1}}}};
  want.sequences[0].proposal = ProposalTree{{kNoParent}, {3}, {0}};
  StepResult got = want;
  EXPECT_EQ(FirstDifference(got, want, 0), "");

  got.sequences[0].emitted[0].top[0].logprob = -1.5f;
  EXPECT_EQ(FirstDifference(got, want, 0.25f),
            "sequence 0: emitted 0: top 0: logprob is -1.5, was -1");
  EXPECT_EQ(FirstDifference(got, want, 0.5f), "");

  got = want;
  got.sequences[0].proposal.reset();
  EXPECT_EQ(FirstDifference(got, want, 0),
            "sequence 0: has_proposal is 0, was 1");
  got.sequences.clear();
  EXPECT_EQ(FirstDifference(got, want, 0),
            "number of sequence results is 0, was 1");
}

}  // namespace
}  // namespace bole
