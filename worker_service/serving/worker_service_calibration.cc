// The part of WorkerService that calibrates the worker.
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/sampling_params.h"
#include "common/status_macros.h"
#include "worker_service/calibration/combinations.h"
#include "worker_service/serving/worker_service.h"

namespace bole {

namespace wire = worker::v1;
using Clock = std::chrono::steady_clock;

namespace {

// Calibrations use stream numbers from here on in the compute loop; the streams
// of schedulers never get so far.
constexpr uint64_t kFirstStream = uint64_t{1} << 63;

CalibrationOptions OptionsOf(const wire::CalibrateRequest& request,
                             const WorkerInfo& info) {
  SamplingParams sampling;
  sampling.temperature = info.temperature;
  sampling.top_k = info.top_k;
  sampling.top_p = info.top_p;
  sampling.min_p = info.min_p;
  sampling.repetition_penalty = info.repetition_penalty;
  return {.size = request.full() ? CalibrationSize::kFull
                                 : CalibrationSize::kCoarse,
          .of = info.MeasuredWith(),
          .limits = info.limits,
          .has_drafter = info.has_drafter,
          .row_buckets = info.row_buckets,
          .experts = info.experts,
          .sampling = sampling,
          .max_time = std::chrono::seconds(request.max_seconds()),
          .round_trip_seconds = request.round_trip_us() * 1e-6};
}

}  // namespace

CostTableOf WorkerInfo::MeasuredWith() const {
  return {.model = model,
          .fingerprint = FingerprintForCosts(fingerprint),
          .device = device,
          .build = version};
}

grpc::ServerWriteReactor<wire::CalibrateProgress>* WorkerService::Calibrate(
    grpc::CallbackServerContext* /*context*/,
    const wire::CalibrateRequest* request) {
  Calibration calibration;
  {
    MutexLock lock(mutex_);
    calibration.stream = kFirstStream + num_calibrations_++;
  }
  calibration.runner = std::make_shared<PlanRunner>(
      [this, stream = calibration.stream](uint64_t number, StepPlan plan) {
        return loop_.Submit(stream, number, std::move(plan));
      });
  auto* call = new CalibrateCall([runner = calibration.runner] {
    runner->Cancel(absl::CancelledError("the client has gone"));
  });  // Deletes itself.
  const absl::Status started =
      StartCalibration(*request, std::move(calibration), *call);
  if (!started.ok()) call->End(started);
  return call;
}

absl::Status WorkerService::StartCalibration(
    const wire::CalibrateRequest& request, Calibration calibration,
    CalibrateCall& call) {
  MutexLock lock(mutex_);
  BOLE_RETURN_IF_ERROR(closed_);
  if (draining_) return absl::UnavailableError("the worker is to leave");
  const Clock::time_point now = Clock::now();
  if (stream_ != nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("the worker obeys ", seat_.Holder(now),
                     "; it can be calibrated when that one has left"));
  }
  if (calibration_) {
    return absl::FailedPreconditionError(
        "another calibration of this worker runs");
  }
  calibration.begin = now;
  calibration_ = calibration;
  loop_.Open(calibration.stream);
  MutexLock join_lock(join_mutex_);
  if (calibrator_.joinable()) calibrator_.join();
  calibrator_ = std::thread([this, options = OptionsOf(request, options_.info),
                             calibration = std::move(calibration), &call] {
    RunCalibration(options, calibration, call);
  });
  return absl::OkStatus();
}

void WorkerService::RunCalibration(const CalibrationOptions& options,
                                   const Calibration& calibration,
                                   CalibrateCall& call) {
  const auto report = [&call](const CalibrationProgress& progress) {
    wire::CalibrateProgress message;
    message.set_phase(progress.phase);
    message.set_done(static_cast<uint32_t>(progress.done));
    message.set_total(static_cast<uint32_t>(progress.total));
    call.Report(std::move(message));
  };
  const absl::StatusOr<CostTable> table = bole::Calibrate(
      options,
      [&](StepPlan plan) { return calibration.runner->Run(std::move(plan)); },
      report);
  wire::CalibrateProgress last;
  if (table.ok()) last.set_cost_table(ToJson(*table));
  {
    MutexLock lock(mutex_);
    calibration_.reset();
    loop_.Close(calibration.stream);
    if (table.ok()) cost_table_ = last.cost_table();
  }
  if (table.ok()) call.Report(std::move(last));
  call.End(table.status());
}

void WorkerService::EndCalibration(const absl::Status& why) {
  if (calibration_) calibration_->runner->Cancel(why);
}

}  // namespace bole
