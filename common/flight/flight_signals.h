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

// After this call SIGUSR1 does not end the process but waits for a
// FlightWriter. Call it first in main(), before anything starts a thread, since
// only threads started later inherit this.
void BlockFlightSignal();

// A thread that writes a file for SIGUSR1 and AskForFault(), so that the
// threads that serve do not. Without a folder SIGUSR1 only makes it note what
// is missing.
//
// Thread-safe.
class FlightWriter {
 public:
  // Receives one line without its line feed.
  using Note = std::function<void(const std::string&)>;

  // `file` may be null; otherwise it must outlive this. `note` is called for
  // every file and every failure. INTERNAL if the system has no descriptor
  // left.
  // REQUIRES: BlockFlightSignal().
  static absl::StatusOr<std::unique_ptr<FlightWriter>> Start(
      const FlightFile* file, Note note);
  ~FlightWriter();

  FlightWriter(const FlightWriter&) = delete;
  FlightWriter& operator=(const FlightWriter&) = delete;

  // Reports a fault: a file is written soon, but at most one a minute, because
  // a worker may be lost repeatedly. Does not block. Without a folder nothing
  // happens.
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

// After this call a signal that ends the process for an error of its own, such
// as SIGSEGV or SIGABRT, writes `file` first. `file` must live until this is
// called with another one or null.
void WriteOnCrash(const FlightFile* file);

// A message about the result of FlightFile::Write().
std::string DescribeFlightFile(const absl::StatusOr<std::string>& path);

}  // namespace bole

#endif  // BOLE_COMMON_FLIGHT_FLIGHT_SIGNALS_H_
