// A process's flight recorder, and everything that writes its records to files.
#ifndef BOLE_COMMON_FLIGHT_FLIGHT_LOG_H_
#define BOLE_COMMON_FLIGHT_FLIGHT_LOG_H_

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "common/flight/flight_file.h"
#include "common/flight/flight_recorder.h"
#include "common/flight/flight_signals.h"

namespace bole {

struct FlightLogOptions {
  std::span<const FlightField> fields;  // As FlightRecorder has them.
  size_t capacity = 0;
  std::string service;  // As FlightFile::Open() has them. An empty folder: the
  std::string folder;   // records stay in memory.
  FlightWriter::Note note;
};

// There is one for a process. If it has a folder, SIGUSR1, faults, and signals
// that end the process cause its records to be written there. Thread-safe.
class FlightLog {
 public:
  // Errors are those of FlightFile::Open() and FlightWriter::Start().
  // REQUIRES: BlockFlightSignal().
  static absl::StatusOr<std::unique_ptr<FlightLog>> Start(
      const FlightLogOptions& options);
  ~FlightLog();

  FlightLog(const FlightLog&) = delete;
  FlightLog& operator=(const FlightLog&) = delete;

  FlightRecorder& recorder() { return recorder_; }

  // As FlightWriter::AskForFault().
  void AskForFault() { writer_->AskForFault(); }
  // Writes the records now, for a process that is about to end. Returns a
  // message about it; empty without a folder.
  std::string WriteFault() const;

 private:
  explicit FlightLog(const FlightLogOptions& options);

  FlightRecorder recorder_;
  std::unique_ptr<FlightFile> file_;  // Null without a folder.
  std::unique_ptr<FlightWriter> writer_;
};

}  // namespace bole

#endif  // BOLE_COMMON_FLIGHT_FLIGHT_LOG_H_
