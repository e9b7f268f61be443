#include "worker_service/loop/recorder.h"

#include <cerrno>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "google/protobuf/io/zero_copy_stream_impl.h"
#include "google/protobuf/util/delimited_message_util.h"
#include "proto/step_codec.h"
#include "proto/worker.pb.h"

namespace bole {
namespace {

namespace wire = worker::v1;

std::string Serialize(const wire::RecordedStep& message) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::util::SerializeDelimitedToZeroCopyStream(message, &stream);
  return bytes;
}

// Begins a new step or adds to the last one.
absl::Status Add(const wire::RecordedStep& message,
                 std::vector<RecordedStep>& steps) {
  if (message.has_plan()) {
    if (!steps.empty() && !steps.back().is_complete()) {
      return absl::DataLossError(
          "the next plan follows before the last of its results");
    }
    RecordedStep step;
    BOLE_ASSIGN_OR_RETURN(step.plan, DecodePlan(message.plan()));
    steps.push_back(std::move(step));
  } else if (steps.empty() || steps.back().is_complete()) {
    return absl::DataLossError("there are results and no plan before them");
  }
  for (const wire::StepResult& result : message.result()) {
    BOLE_ASSIGN_OR_RETURN(StepResult decoded, DecodeResult(result));
    steps.back().results.push_back(std::move(decoded));
  }
  return absl::OkStatus();
}

// The number of the step that the next message should belong to.
size_t StepToRead(const std::vector<RecordedStep>& steps) {
  const bool begins = steps.empty() || steps.back().is_complete();
  return begins ? steps.size() : steps.size() - 1;
}

// Needed because the parser also reports the end for a length that is not a
// varint.
bool IsAtEnd(google::protobuf::io::ZeroCopyInputStream& stream) {
  const void* data = nullptr;
  int size = 0;
  return !stream.Next(&data, &size) || size == 0;
}

}  // namespace

absl::StatusOr<Recorder> Recorder::Create(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "wbe");
  if (file == nullptr) return absl::ErrnoToStatus(errno, path);
  return Recorder(path, file);
}

absl::Status Recorder::WritePlan(const StepPlan& plan) {
  wire::RecordedStep message;
  EncodePlan(plan, *message.mutable_plan());
  return Append(Serialize(message));
}

absl::Status Recorder::WriteResult(const StepResult& result) {
  wire::RecordedStep message;
  EncodeResult(result, *message.add_result());
  return Append(Serialize(message));
}

absl::Status Recorder::Append(const std::string& bytes) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) != bytes.size() ||
      std::fflush(file_.get()) != 0) {
    return absl::ErrnoToStatus(errno, path_);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<RecordedStep>> ReadRecording(
    const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError(absl::StrCat(path, ": cannot be read"));
  google::protobuf::io::IstreamInputStream stream(&file);
  std::vector<RecordedStep> steps;
  while (true) {
    wire::RecordedStep message;
    bool at_end = false;
    if (!google::protobuf::util::ParseDelimitedFromZeroCopyStream(
            &message, &stream, &at_end)) {
      if (at_end && IsAtEnd(stream)) return steps;
      return absl::DataLossError(absl::StrCat(
          path, ": step ", StepToRead(steps), " is cut off or damaged"));
    }
    if (absl::Status status = Add(message, steps); !status.ok()) {
      return absl::DataLossError(absl::StrCat(
          path, ": step ", StepToRead(steps), ": ", status.message()));
    }
  }
}

}  // namespace bole
