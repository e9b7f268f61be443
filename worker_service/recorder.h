// Files of steps: what a worker ran, to be run again.
#ifndef BOLE_WORKER_SERVICE_RECORDER_H_
#define BOLE_WORKER_SERVICE_RECORDER_H_

#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/step.h"

namespace bole {

// A plan and what came of it. Run in order on a fresh engine of the same sizes
// and checkpoint, the plans of a file give these results again.
struct RecordedStep {
  StepPlan plan;
  std::vector<StepResult> results;  // One for each round.
};

// Appends steps to a file: RecordedStep messages of worker.proto, each after
// its length as a varint. Not thread-safe.
class Recorder {
 public:
  // A file that is there is replaced. Errors name the path.
  static absl::StatusOr<Recorder> Create(const std::string& path);

  // The step is in the file when this returns, whatever becomes of the process.
  absl::Status Write(const StepPlan& plan, std::span<const StepResult> results);

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  Recorder(std::string path, std::FILE* file)
      : path_(std::move(path)), file_(file) {}

  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
};

// The steps of a file. Errors name the path, and the step that cannot be read:
// a file may end in the middle of one if its worker was killed.
absl::StatusOr<std::vector<RecordedStep>> ReadRecording(
    const std::string& path);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_RECORDER_H_
