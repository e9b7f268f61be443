// Files of the steps that a worker ran, to be run again.
#ifndef BOLE_WORKER_SERVICE_RECORDER_H_
#define BOLE_WORKER_SERVICE_RECORDER_H_

#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/step.h"

namespace bole {

// A plan and its results. Run in order on a fresh engine of the same sizes and
// checkpoint, the plans of a file give these results again.
struct RecordedStep {
  StepPlan plan;
  std::vector<StepResult> results;  // One for each round.

  // False for the plan that a worker failed at, or that still ran when the file
  // was read.
  bool is_complete() const {
    return !results.empty() && results.back().is_last;
  }
};

// Appends steps to a file of RecordedStep messages (worker.proto). Not
// thread-safe.
//
// What was written is in the file when a call returns, whatever becomes of the
// process: so the plan that makes a worker fail is the last one of its file.
class Recorder {
 public:
  // An existing file is replaced. Errors name the path.
  static absl::StatusOr<Recorder> Create(const std::string& path);

  // Begins a step, before it runs.
  absl::Status WritePlan(const StepPlan& plan);
  // The result of the next round of the plan that was written last.
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

// The steps of a file, of which only the last may be incomplete. NOT_FOUND if
// it cannot be opened. DATA_LOSS, naming the step, if a message cannot be read:
// a file may end in the middle of one if the disk was full.
absl::StatusOr<std::vector<RecordedStep>> ReadRecording(
    const std::string& path);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_RECORDER_H_
