// The service bole.worker.v1.Worker.
#ifndef BOLE_WORKER_SERVICE_SERVING_WORKER_SERVICE_H_
#define BOLE_WORKER_SERVICE_SERVING_WORKER_SERVICE_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/cost_table.h"
#include "common/flight/flight_recorder.h"
#include "common/model_fingerprint.h"
#include "common/mutex.h"
#include "common/net/handled_calls.h"
#include "common/step.h"
#include "common/trace/plan_trace.h"
#include "common/trace/span_exporter.h"
#include "grpcpp/support/server_callback.h"
#include "proto/worker.grpc.pb.h"
#include "worker_service/calibration/calibrator.h"
#include "worker_service/calibration/fit.h"
#include "worker_service/calibration/plan_runner.h"
#include "worker_service/loop/compute_loop.h"
#include "worker_service/loop/ticker.h"
#include "worker_service/serving/request_spans.h"
#include "worker_service/serving/scheduler_seat.h"
#include "worker_service/serving/worker_metrics.h"
#include "worker_service/serving/worker_service_call.h"
#include "worker_service/serving/worker_service_stream.h"

namespace bole {

// The answer of Describe.
struct WorkerInfo {
  std::string model = {};
  std::string device = {};
  std::string version = {};
  StepLimits limits = {};
  bool has_drafter = false;
  bool synthetic = false;                 // The weights are not a checkpoint's.
  ModelFingerprint fingerprint = {};      // Identifies the checkpoint's files.
  std::vector<int32_t> stop_tokens = {};  // The model's own.
  // Defaults for requests that leave a choice open.
  float temperature = 1;
  int32_t top_k = 0;  // 0: no limit.
  float top_p = 1;
  float min_p = 0;
  float repetition_penalty = 1;
  // The rows of a forward pass and the requests of a forest are padded to one
  // of these, ascending; empty: they are not padded.
  std::vector<int> row_buckets = {};
  std::vector<int> request_buckets = {};
  Experts experts = {};  // The model's experts.
  // The sizes of a slot and of a page; 0: not known.
  uint64_t slot_bytes = 0;
  uint64_t page_bytes = 0;
  std::string cost_table = {};  // The text of the table's file; empty: none.

  // What a cost table for this worker has to be measured with.
  CostTableOf MeasuredWith() const;
};

struct WorkerServiceOptions {
  WorkerInfo info;
  // As ComputeLoopOptions::step.
  std::function<absl::Status(const StepPlan& plan, const OnRound& on_round)>
      step = {};
  // As ComputeLoopOptions::step_timeout.
  std::chrono::milliseconds step_timeout{0};
  FlightRecorder* flight = nullptr;  // As ComputeLoopOptions::flight.
  // Receives the worker's spans of traced requests; null: none are recorded.
  // Outlives the service.
  SpanExporter* spans = nullptr;
  // Counts streams of Execute; null: they are not counted. Outlives the
  // service.
  HandledCalls* handled = nullptr;
  // The interval at which both sides send heartbeats.
  std::chrono::milliseconds heartbeat_interval{1000};
  // Another scheduler may take over when the present one has been silent for
  // this long, or for three heartbeat intervals if that is longer.
  std::chrono::milliseconds scheduler_timeout{5000};
  // Called once, without locks, if the engine fails or hangs. From then on no
  // stream is opened, and the open one has been ended with INTERNAL. Its
  // scheduler has received that, unless it takes longer than kFarewell. The
  // callback must not call Stop(), which would wait for a step that hangs.
  std::function<void(const absl::Status& why)> on_failure = {};
};

// Serves one scheduler at a time, which SchedulerSeat chooses. RPC threads
// decode, a thread of the compute loop runs plans, and another one sends
// heartbeats whatever the loop does. While no scheduler has the seat, one call
// may calibrate the worker, on a thread of its own that sends plans to the loop
// as a scheduler would.
//
// Thread-safe. Calls must have ended before it is destroyed.
class WorkerService final : public worker::v1::Worker::CallbackService,
                            private ExecuteStream::Owner {
 public:
  // After a failure, how long the scheduler has to receive it.
  static constexpr std::chrono::milliseconds kFarewell{300};

  // `metrics` must outlive the service.
  WorkerService(WorkerServiceOptions options, WorkerMetrics& metrics);
  ~WorkerService() override;  // Stop().

  grpc::ServerUnaryReactor* Describe(
      grpc::CallbackServerContext* context,
      const worker::v1::DescribeRequest* request,
      worker::v1::DescribeResponse* response) override;
  grpc::ServerBidiReactor<worker::v1::ExecuteRequest,
                          worker::v1::ExecuteResponse>*
  Execute(grpc::CallbackServerContext* context) override;
  grpc::ServerUnaryReactor* Drain(grpc::CallbackServerContext* context,
                                  const worker::v1::DrainRequest* request,
                                  worker::v1::DrainResponse* response) override;

  grpc::ServerWriteReactor<worker::v1::CalibrateProgress>* Calibrate(
      grpc::CallbackServerContext* context,
      const worker::v1::CalibrateRequest* request) override;

  // The device has been lost, perhaps while no step runs: ends all service, as
  // when the engine fails. A running step may know more about the reason, so it
  // has kLastWord to fail by itself first.
  void Lose(const absl::Status& why);
  static constexpr std::chrono::milliseconds kLastWord{500};

  // Asks the scheduler to send no new requests, and waits until there is no
  // stream, until `deadline`, or until Stop(). Returns whether the stream is
  // gone.
  bool WaitUntilDrained(std::chrono::steady_clock::time_point deadline);

  // Ends the stream with UNAVAILABLE, opens no other, and waits for the running
  // step.
  void Stop();

 private:
  // A Drain call that waits for the end of the stream.
  class DrainCall;

  absl::Status OnOpen(ExecuteStream& stream,
                      const SchedulerHello& hello) override;
  absl::Status OnPlan(const ExecuteStream& stream, uint64_t sequence,
                      StepPlan plan, const PlanTrace& trace) override;
  void OnHeard(const ExecuteStream& stream, const PlanTrace& trace) override;
  void OnMalformed() override;
  void OnClosed(const ExecuteStream& stream) override;

  // Gives the scheduler of `hello` the seat, or returns why it does not.
  absl::Status Seat(const SchedulerHello& hello, SchedulerSeat::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnOutcome(const ComputeOutcome& outcome);
  // Ends all service, for an engine that failed or hangs.
  void Fail(const absl::Status& why);
  void SendHeartbeat();

  // Calibration (worker_service_calibration.cc).
  struct Calibration {
    uint64_t stream = 0;  // For the compute loop.
    SchedulerSeat::Time begin = {};
    std::shared_ptr<PlanRunner> runner = nullptr;
  };
  // Starts the thread that calibrates and then ends `call`, or returns why it
  // cannot.
  absl::Status StartCalibration(const worker::v1::CalibrateRequest& request,
                                Calibration calibration, CalibrateCall& call);
  void RunCalibration(const CalibrationOptions& options,
                      const Calibration& calibration, CalibrateCall& call);
  void EndCalibration(const absl::Status& why)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  void StartDraining() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndDrainCalls() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns whether the call was still waiting.
  bool Forget(DrainCall* call);

  const WorkerServiceOptions options_;
  WorkerMetrics& metrics_;

  Mutex mutex_;
  CondVar changed_;
  SchedulerSeat seat_ ABSL_GUARDED_BY(mutex_);
  // The stream of the scheduler that has the seat, or null.
  ExecuteStream* stream_ ABSL_GUARDED_BY(mutex_) = nullptr;
  // The number of streams that were opened, which identifies the current one to
  // the compute loop.
  uint64_t num_streams_ ABSL_GUARDED_BY(mutex_) = 0;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  bool failed_ ABSL_GUARDED_BY(mutex_) = false;
  // If not OK, the reason why no stream is opened any more.
  absl::Status closed_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_set<DrainCall*> drain_calls_ ABSL_GUARDED_BY(mutex_);
  std::optional<Calibration> calibration_ ABSL_GUARDED_BY(mutex_);
  uint64_t num_calibrations_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string cost_table_ ABSL_GUARDED_BY(mutex_);
  RequestSpans spans_;

  // Taken after mutex_, or without it.
  Mutex join_mutex_;
  // Its thread does not take mutex_ once calibration_ is empty.
  std::thread calibrator_ ABSL_GUARDED_BY(join_mutex_);

  // These come last because their threads use the members above.
  ComputeLoop loop_;
  Ticker ticker_;
};

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_SERVING_WORKER_SERVICE_H_
