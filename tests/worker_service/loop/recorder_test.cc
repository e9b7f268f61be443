#include "worker_service/loop/recorder.h"

#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "tests/testing/random_step.h"
#include "tests/testing/same_plan.h"

namespace bole {
namespace {

using ::bole::testing::RandomPlan;
using ::bole::testing::RandomPlanLimits;
using ::bole::testing::RandomResult;
using ::bole::testing::Same;

class RecorderTest : public ::testing::Test {
 protected:
  // Writes `count` random steps, which it returns.
  std::vector<RecordedStep> Record(int count) {
    std::mt19937 rng(1);
    absl::StatusOr<Recorder> recorder = Recorder::Create(path_);
    EXPECT_EQ(recorder.status(), absl::OkStatus());
    std::vector<RecordedStep> steps;
    for (int i = 0; i < count; ++i) {
      steps.push_back({.plan = RandomPlan(rng, RandomPlanLimits()),
                       .results = {RandomResult(rng)}});
      steps[i].results[0].is_last = true;
      EXPECT_EQ(recorder->WritePlan(steps[i].plan), absl::OkStatus());
      EXPECT_EQ(recorder->WriteResult(steps[i].results[0]), absl::OkStatus());
      // In the file while the recorder is still open.
      EXPECT_EQ(ReadRecording(path_)->size(), steps.size());
    }
    return steps;
  }

  void KeepOnly(size_t bytes) { std::filesystem::resize_file(path_, bytes); }

  const std::string path_ = ::testing::TempDir() + "/steps.binpb";
};

TEST_F(RecorderTest, StepsComeBackAsTheyWere) {
  const std::vector<RecordedStep> steps = Record(20);

  const absl::StatusOr<std::vector<RecordedStep>> read = ReadRecording(path_);

  ASSERT_EQ(read.status(), absl::OkStatus());
  ASSERT_EQ(read->size(), steps.size());
  for (size_t i = 0; i < steps.size(); ++i) {
    EXPECT_TRUE(Same((*read)[i].plan, steps[i].plan)) << i;
    EXPECT_EQ((*read)[i].results, steps[i].results) << i;
  }
}

// A worker that fails, or is killed, leaves such a file.
TEST_F(RecorderTest, APlanIsInTheFileBeforeItsResults) {
  std::mt19937 rng(2);
  const StepPlan lease = RandomPlan(rng, RandomPlanLimits());
  const StepPlan failing = RandomPlan(rng, RandomPlanLimits());
  std::vector<StepResult> rounds = {RandomResult(rng), RandomResult(rng)};
  rounds[0].is_last = false;
  rounds[1].is_last = true;
  absl::StatusOr<Recorder> recorder = Recorder::Create(path_);
  ASSERT_EQ(recorder.status(), absl::OkStatus());

  ASSERT_EQ(recorder->WritePlan(lease), absl::OkStatus());
  ASSERT_EQ(recorder->WriteResult(rounds[0]), absl::OkStatus());
  EXPECT_FALSE(ReadRecording(path_)->back().is_complete());
  ASSERT_EQ(recorder->WriteResult(rounds[1]), absl::OkStatus());
  EXPECT_TRUE(ReadRecording(path_)->back().is_complete());
  ASSERT_EQ(recorder->WritePlan(failing), absl::OkStatus());

  const auto steps = ReadRecording(path_);
  ASSERT_EQ(steps.status(), absl::OkStatus());
  ASSERT_EQ(steps->size(), 2u);
  EXPECT_EQ((*steps)[0].results, rounds);
  EXPECT_TRUE(Same((*steps)[1].plan, failing));
  EXPECT_FALSE((*steps)[1].is_complete());
}

TEST_F(RecorderTest, OnlyTheLastStepMayLackResults) {
  absl::StatusOr<Recorder> recorder = Recorder::Create(path_);
  ASSERT_EQ(recorder.status(), absl::OkStatus());
  ASSERT_EQ(recorder->WritePlan({}), absl::OkStatus());
  ASSERT_EQ(recorder->WritePlan({}), absl::OkStatus());

  const absl::Status two_plans = ReadRecording(path_).status();
  *recorder = *Recorder::Create(path_);
  ASSERT_EQ(recorder->WriteResult({}), absl::OkStatus());
  const absl::Status no_plan = ReadRecording(path_).status();

  EXPECT_EQ(two_plans.code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(two_plans.message().find("step 0"), absl::string_view::npos);
  EXPECT_EQ(no_plan.code(), absl::StatusCode::kDataLoss);
}

TEST_F(RecorderTest, AFileThatIsThereIsReplaced) {
  Record(3);
  const size_t bytes = std::filesystem::file_size(path_);

  Record(3);

  EXPECT_EQ(std::filesystem::file_size(path_), bytes);
}

TEST_F(RecorderTest, AnEmptyRecordingHasNoSteps) {
  Record(0);

  EXPECT_TRUE(ReadRecording(path_)->empty());
}

TEST_F(RecorderTest, SaysWhichStepIsCutOff) {
  Record(2);
  const size_t two = std::filesystem::file_size(path_);
  Record(3);
  KeepOnly(two + 10);

  const absl::Status status = ReadRecording(path_).status();

  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(status.message().find("step 2"), absl::string_view::npos) << status;
}

TEST_F(RecorderTest, RefusesBytesThatAreNoSteps) {
  // A plan whose forest has one parent and no token.
  const std::string no_plan = "\x07\x0a\x05\x1a\x03\x12\x01\x01";
  const std::string garbage(100, '\xff');
  for (const std::string& bytes : {no_plan, garbage}) {
    std::ofstream(path_, std::ios::binary) << bytes;

    EXPECT_EQ(ReadRecording(path_).status().code(),
              absl::StatusCode::kDataLoss);
  }
}

TEST_F(RecorderTest, NamesAPathThatCannotBeOpened) {
  const std::string path = ::testing::TempDir() + "/no_such_folder/steps";

  const absl::Status write = Recorder::Create(path).status();
  const absl::Status read = ReadRecording(path).status();

  EXPECT_NE(write.message().find(path), absl::string_view::npos) << write;
  EXPECT_EQ(read.code(), absl::StatusCode::kNotFound);
  EXPECT_NE(read.message().find(path), absl::string_view::npos) << read;
}

TEST_F(RecorderTest, SaysThatTheDiskIsFull) {
  absl::StatusOr<Recorder> recorder = Recorder::Create("/dev/full");
  ASSERT_EQ(recorder.status(), absl::OkStatus());

  EXPECT_EQ(recorder->WritePlan({}).code(),
            absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace bole
