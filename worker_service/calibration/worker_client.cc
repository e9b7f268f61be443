#include "worker_service/calibration/worker_client.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

#include "common/status_macros.h"
#include "grpcpp/client_context.h"
#include "proto/grpc_status.h"
#include "proto/worker.grpc.pb.h"

namespace bole {
namespace {

namespace wire = worker::v1;
using Clock = std::chrono::steady_clock;

constexpr int kRoundTrips = 31;
constexpr std::chrono::seconds kConnectTime{10};

// The median time of a short call in microseconds, not counting the time to
// connect.
absl::StatusOr<uint32_t> RoundTripOf(wire::Worker::Stub& stub) {
  std::vector<double> times;
  for (int i = 0; i < kRoundTrips; ++i) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + kConnectTime);
    wire::DescribeResponse response;
    const Clock::time_point begin = Clock::now();
    const grpc::Status status = stub.Describe(&context, {}, &response);
    if (!status.ok()) return FromGrpcStatus(status);
    const std::chrono::duration<double, std::micro> took = Clock::now() - begin;
    if (i > 0) times.push_back(took.count());
  }
  std::sort(times.begin(), times.end());
  return static_cast<uint32_t>(times[times.size() / 2]);
}

}  // namespace

absl::StatusOr<std::string> CalibrateRemotely(
    const RemoteCalibration& calibration,
    const OnCalibrationProgress& on_progress) {
  BOLE_ASSIGN_OR_RETURN(const ClientCredentials credentials,
                        ClientCredentials::Open(calibration.tls));
  const auto stub =
      wire::Worker::NewStub(credentials.ChannelTo(calibration.worker, {}));
  wire::CalibrateRequest request;
  request.set_full(calibration.size == CalibrationSize::kFull);
  request.set_max_seconds(static_cast<uint32_t>(calibration.max_seconds));
  BOLE_ASSIGN_OR_RETURN(const uint32_t round_trip_us, RoundTripOf(*stub));
  request.set_round_trip_us(round_trip_us);
  grpc::ClientContext context;
  const auto reader = stub->Calibrate(&context, request);
  wire::CalibrateProgress progress;
  std::string table;
  while (reader->Read(&progress)) {
    if (!progress.cost_table().empty()) table = progress.cost_table();
    if (progress.total() == 0) continue;
    on_progress({.phase = progress.phase(),
                 .done = static_cast<int>(progress.done()),
                 .total = static_cast<int>(progress.total())});
  }
  const grpc::Status status = reader->Finish();
  if (!status.ok()) return FromGrpcStatus(status);
  return table;
}

}  // namespace bole
