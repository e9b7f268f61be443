// Recordings of the steps that a worker ran, so that they can be run again.
#ifndef BOLE_WORKER_SERVICE_LOOP_RECORDER_H_
#define BOLE_WORKER_SERVICE_LOOP_RECORDER_H_

#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/step.h"

namespace bole {

// A plan and its results. If the plans of a file are run in order on a fresh
// engine with the same sizes and checkpoint, they give the same results.
struct RecordedStep {
  StepPlan plan;
  std::vector<StepResult> results;  // One for each round.

  // False for a plan at which a worker failed, or which was still running when
  // the file was read.
  bool is_complete() const {
    return !results.empty() && results.back().is_last;
  }
};

// Appends steps to a file of RecordedStep messages (worker.proto). Not
// thread-safe.
//
// When a call returns, what it wrote is in the file, even if the process then
// dies: so the plan that makes a worker fail is the last one of its file.
class Recorder {
 public:
  // An existing file is replaced. Errors name the path.
  static absl::StatusOr<Recorder> Create(const std::string& path);

  // Begins a step, before it runs.
  absl::Status WritePlan(const StepPlan& plan);
  // Appends the result of the next round of the plan that was written last.
  absl::Status WriteResult(const StepResult& result);

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  Recorder(std::string path, std::FILE* file)
      : path_(std::move(path)), file_(file) {}

  absl::Status Append(const std::string& bytes);

  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
};

// Reads the steps of a file, of which only the last may be incomplete.
// NOT_FOUND if it cannot be opened. DATA_LOSS, naming the step, if a message
// cannot be read: a file may end in the middle of one if the disk was full.
absl::StatusOr<std::vector<RecordedStep>> ReadRecording(
    const std::string& path);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_LOOP_RECORDER_H_
