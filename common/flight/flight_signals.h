// When a flight recorder's file is written.
#ifndef BOLE_COMMON_FLIGHT_FLIGHT_SIGNALS_H_
#define BOLE_COMMON_FLIGHT_FLIGHT_SIGNALS_H_

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "common/flight/flight_file.h"

namespace bole {

// From here on SIGUSR1 does not end the process: it waits for a FlightWriter.
// First thing in main(), before anything starts a thread, since only threads
// started later inherit that.
void BlockFlightSignal();

// A thread that writes a file with every SIGUSR1, and with every AskFor(), off
// the threads that serve. Without a folder it says what is missing instead.
//
// Thread-safe.
class FlightWriter {
 public:
  // Takes one line without its end.
  using Note = std::function<void(const std::string&)>;

  // `file` may be null, and outlives this otherwise. `note` is told of every
  // file and of every failure. INTERNAL if the system has no descriptor left.
  // REQUIRES: BlockFlightSignal().
  static absl::StatusOr<std::unique_ptr<FlightWriter>> Start(
      const FlightFile* file, Note note);
  ~FlightWriter();

  FlightWriter(const FlightWriter&) = delete;
  FlightWriter& operator=(const FlightWriter&) = delete;

  // A fault was seen: a file is written soon, but at most one a minute, because
  // a worker may be lost again and again. Does not block. Without a folder
  // nothing happens.
  void AskForFault();

 private:
  FlightWriter(const FlightFile* file, Note note, int signals, int asked);

  void Run();
  void Write(FlightReason reason) const;

  const FlightFile* const file_;
  const Note note_;
  const int signals_;  // A signalfd.
  const int asked_;    // An eventfd: kStop, or a count of faults.
  std::thread thread_;
};

// From here on a signal that ends the process for an error of its own, SIGSEGV
// or SIGABRT for example, writes `file` first, which lives until another one,
// or null, is named.
void WriteOnCrash(const FlightFile* file);

// What to say of FlightFile::Write().
std::string DescribeFlightFile(const absl::StatusOr<std::string>& path);

}  // namespace bole

#endif  // BOLE_COMMON_FLIGHT_FLIGHT_SIGNALS_H_
