#include "common/flight/flight_log.h"

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace bole {

absl::StatusOr<std::unique_ptr<FlightLog>> FlightLog::Start(
    const FlightLogOptions& options) {
  std::unique_ptr<FlightLog> log(new FlightLog(options));
  if (!options.folder.empty()) {
    BOLE_ASSIGN_OR_RETURN(
        log->file_,
        FlightFile::Open(log->recorder_, options.service, options.folder));
    WriteOnCrash(log->file_.get());
  }
  BOLE_ASSIGN_OR_RETURN(log->writer_,
                        FlightWriter::Start(log->file_.get(), options.note));
  return log;
}

FlightLog::FlightLog(const FlightLogOptions& options)
    : recorder_(options.fields, options.capacity) {}

FlightLog::~FlightLog() { WriteOnCrash(nullptr); }

std::string FlightLog::WriteFault() const {
  if (file_ == nullptr) return "";
  return DescribeFlightFile(file_->Write(FlightReason::kFault));
}

}  // namespace bole
