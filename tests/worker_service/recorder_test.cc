#include "worker_service/recorder.h"

#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "tests/testing/random_step.h"

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
      EXPECT_EQ(recorder->Write(steps[i].plan, steps[i].results),
                absl::OkStatus());
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

  EXPECT_EQ(recorder->Write({}, {}).code(),
            absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace bole
