#include "common/flight/flight_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/flight/signal_safe_text.h"
#include "common/flight/unix_time.h"
#include "common/version.h"

namespace bole {
namespace {

constexpr mode_t kOwnerOnly = 0600;

// Bound on the bytes of a path besides the folder and the service's name.
constexpr size_t kMaxSuffix = 64;

const char* NameOf(FlightReason reason) {
  switch (reason) {
    case FlightReason::kSignal:
      return "signal";
    case FlightReason::kFault:
      return "fault";
    case FlightReason::kCrash:
      return "crash";
    case FlightReason::kAsked:
      return "asked";
  }
  return "";
}

// Returns errno, or 0.
int WriteAll(int descriptor, const char* bytes, size_t size) {
  while (size > 0) {
    const ssize_t written = write(descriptor, bytes, size);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return written < 0 ? errno : EIO;
    bytes += written;
    size -= static_cast<size_t>(written);
  }
  return 0;
}

int WriteRecords(int descriptor, const FlightRecorder& recorder,
                 std::string_view service, FlightReason reason) {
  std::array<char, FlightRecorder::kMaxLine> line;
  int error = WriteAll(descriptor, line.data(),
                       FormatFlightHeader(recorder, service, reason, line));
  const uint64_t end = recorder.num_added();
  for (uint64_t number = recorder.oldest(); number < end && error == 0;
       ++number) {
    error =
        WriteAll(descriptor, line.data(), recorder.FormatLine(number, line));
  }
  return error;
}

}  // namespace

size_t FormatFlightHeader(const FlightRecorder& recorder,
                          std::string_view service, FlightReason reason,
                          std::span<char, FlightRecorder::kMaxLine> line) {
  SignalSafeText text(line);
  text.Append("{\"flight_record\":\"");
  text.Append(service);
  text.Append("\",\"version\":\"");
  text.Append(kVersion);
  text.Append("\",\"pid\":");
  text.AppendDecimal(getpid(), 0);
  text.Append(",\"reason\":\"");
  text.Append(NameOf(reason));
  text.Append("\",\"written_at\":");
  text.AppendDecimal(UnixMicroseconds(), 6);
  text.Append(",\"capacity\":");
  text.AppendDecimal(static_cast<int64_t>(recorder.capacity()), 0);
  text.Append("}\n");
  return text.size();
}

std::string FlightJsonLines(const FlightRecorder& recorder,
                            std::string_view service, FlightReason reason) {
  std::array<char, FlightRecorder::kMaxLine> line;
  const size_t length = FormatFlightHeader(recorder, service, reason, line);
  return std::string(line.data(), length) + recorder.ToJsonLines();
}

absl::StatusOr<std::unique_ptr<FlightFile>> FlightFile::Open(
    const FlightRecorder& recorder, const std::string& service,
    const std::string& folder) {
  struct stat status;
  int error = stat(folder.c_str(), &status) == 0 ? 0 : errno;
  if (error == 0 && !S_ISDIR(status.st_mode)) error = ENOTDIR;
  if (error == 0 && access(folder.c_str(), W_OK | X_OK) != 0) error = errno;
  if (error != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("no files can be made in the folder ", folder, ": ",
                     strerrordesc_np(error)));
  }
  if (folder.size() + service.size() + kMaxSuffix > kMaxPath) {
    return absl::InvalidArgumentError(
        absl::StrCat("the path ", folder, " is longer than ",
                     kMaxPath - service.size() - kMaxSuffix, " bytes"));
  }
  return std::unique_ptr<FlightFile>(new FlightFile(recorder, service, folder));
}

FlightFile::FlightFile(const FlightRecorder& recorder, std::string service,
                       std::string folder)
    : recorder_(recorder),
      service_(std::move(service)),
      folder_(std::move(folder)) {}

absl::StatusOr<std::string> FlightFile::Write(FlightReason reason) const {
  Path path;
  MakePath(reason, path);
  const int error = WriteTo(path.data(), reason);
  if (error == 0) return std::string(path.data());
  return absl::InternalError(
      absl::StrCat("writing ", path.data(), ": ", strerrordesc_np(error)));
}

int FlightFile::WriteInHandler(FlightReason reason) const {
  Path path;
  MakePath(reason, path);
  return WriteTo(path.data(), reason);
}

void FlightFile::MakePath(FlightReason reason, Path& path) const {
  SignalSafeText text(path);
  text.Append(folder_);
  text.Append("/");
  text.Append(service_);
  text.Append("-");
  text.AppendDecimal(UnixMicroseconds(), 0);
  text.Append("-");
  text.Append(NameOf(reason));
  text.Append({".jsonl\0", 7});
}

int FlightFile::WriteTo(const char* path, FlightReason reason) const {
  std::array<char, kMaxPath + 8> partial;
  SignalSafeText text(partial);
  text.Append(path);
  text.Append({".part\0", 6});
  const int descriptor =
      open(partial.data(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, kOwnerOnly);
  if (descriptor < 0) return errno;
  int error = WriteRecords(descriptor, recorder_, service_, reason);
  if (close(descriptor) != 0 && error == 0) error = errno;
  if (error == 0 && rename(partial.data(), path) != 0) error = errno;
  if (error != 0) unlink(partial.data());
  return error;
}

}  // namespace bole
