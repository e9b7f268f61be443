// Asks a worker to calibrate itself.
#ifndef BOLE_WORKER_SERVICE_CALIBRATION_WORKER_CLIENT_H_
#define BOLE_WORKER_SERVICE_CALIBRATION_WORKER_CLIENT_H_

#include <string>

#include "absl/status/statusor.h"
#include "common/net/client_credentials.h"
#include "worker_service/calibration/calibrator.h"
#include "worker_service/calibration/combinations.h"

namespace bole {

struct RemoteCalibration {
  std::string worker;  // HOST:PORT
  TlsClientFiles tls = {};
  CalibrationSize size = CalibrationSize::kCoarse;
  int max_seconds = 0;  // The longest time to measure; 0: no limit.
};

// Measures a round trip to the worker, has it calibrated, and returns the text
// of its table. Errors are those of ClientCredentials::Open() and those of the
// calls, which proto/worker.proto lists.
absl::StatusOr<std::string> CalibrateRemotely(
    const RemoteCalibration& calibration,
    const OnCalibrationProgress& on_progress);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_CALIBRATION_WORKER_CLIENT_H_
