// Files of a flight recorder's records.
#ifndef BOLE_COMMON_FLIGHT_FLIGHT_FILE_H_
#define BOLE_COMMON_FLIGHT_FLIGHT_FILE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/flight/flight_recorder.h"

namespace bole {

// Why a file is written.
enum class FlightReason {
  kSignal,  // SIGUSR1.
  kFault,   // A device that fails or hangs; a worker that does not answer.
  kCrash,   // A signal that ends the process.
  kAsked,   // Requested over gRPC; there is no file.
};

// Writes all records of a recorder into a new file of a folder, as lines of
// JSON: first who wrote them, when and why, then the records, oldest first. A
// file appears as a whole or not at all. Only its owner can read it.
//
// Thread-safe.
class FlightFile {
 public:
  // INVALID_ARGUMENT, naming the folder, if files cannot be created there or
  // their paths would be too long. `recorder` must outlive this; `service` is
  // the program's name, in a-z and '-'.
  static absl::StatusOr<std::unique_ptr<FlightFile>> Open(
      const FlightRecorder& recorder, const std::string& service,
      const std::string& folder);

  // Returns the path: FOLDER/SERVICE-MICROSECONDS-REASON.jsonl.
  absl::StatusOr<std::string> Write(FlightReason reason) const;

  // The same; returns errno, or 0. Async-signal-safe.
  int WriteInHandler(FlightReason reason) const;

 private:
  static constexpr size_t kMaxPath = 1024;
  using Path = std::array<char, kMaxPath>;

  FlightFile(const FlightRecorder& recorder, std::string service,
             std::string folder);

  int WriteTo(const char* path, FlightReason reason) const;
  // Makes the path of a file that is written now, with a zero at its end.
  void MakePath(FlightReason reason, Path& path) const;

  const FlightRecorder& recorder_;
  const std::string service_;
  const std::string folder_;
};

// The first line of a file. Async-signal-safe.
size_t FormatFlightHeader(const FlightRecorder& recorder,
                          std::string_view service, FlightReason reason,
                          std::span<char, FlightRecorder::kMaxLine> line);

// The contents of a file, in memory.
std::string FlightJsonLines(const FlightRecorder& recorder,
                            std::string_view service, FlightReason reason);

}  // namespace bole

#endif  // BOLE_COMMON_FLIGHT_FLIGHT_FILE_H_
