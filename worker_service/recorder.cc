#include "worker_service/recorder.h"

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

absl::StatusOr<RecordedStep> Decode(const wire::RecordedStep& message) {
  RecordedStep step;
  BOLE_ASSIGN_OR_RETURN(step.plan, DecodePlan(message.plan()));
  step.results.reserve(message.result_size());
  for (const wire::StepResult& result : message.result()) {
    BOLE_ASSIGN_OR_RETURN(StepResult decoded, DecodeResult(result));
    step.results.push_back(std::move(decoded));
  }
  return step;
}

// A length that is no varint looks like the end to the parser.
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

absl::Status Recorder::Write(const StepPlan& plan,
                             std::span<const StepResult> results) {
  wire::RecordedStep message;
  EncodePlan(plan, *message.mutable_plan());
  for (const StepResult& result : results) {
    EncodeResult(result, *message.add_result());
  }
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::util::SerializeDelimitedToZeroCopyStream(message,
                                                               &stream);
  }
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
      return absl::DataLossError(absl::StrCat(path, ": step ", steps.size(),
                                              " is cut off or damaged"));
    }
    absl::StatusOr<RecordedStep> step = Decode(message);
    if (!step.ok()) {
      return absl::DataLossError(absl::StrCat(path, ": step ", steps.size(),
                                              ": ", step.status().ToString()));
    }
    steps.push_back(*std::move(step));
  }
}

}  // namespace bole
