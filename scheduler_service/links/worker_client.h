// The interface between the scheduler loop and a worker.
#ifndef BOLE_SCHEDULER_SERVICE_LINKS_WORKER_CLIENT_H_
#define BOLE_SCHEDULER_SERVICE_LINKS_WORKER_CLIENT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/cost_table.h"
#include "common/ids.h"
#include "common/model_fingerprint.h"
#include "common/sampling_params.h"
#include "common/step.h"
#include "common/trace/plan_trace.h"
#include "common/trace/trace_context.h"

namespace bole {

// What a worker runs. Fixed while it lives.
struct WorkerDescription {
  std::string model;
  std::string device;
  std::string version;
  uint32_t protocol_version = 0;  // 0: not known.
  StepLimits limits;
  bool has_drafter = false;
  bool synthetic = false;             // The weights are not a checkpoint's.
  ModelFingerprint fingerprint = {};  // Empty digests are unknown.
  std::vector<int32_t> stop_tokens;   // The model's own.
  // The worker pads the rows of a forward, and the requests of a forest, to one
  // of these, in ascending order. Empty: it does not pad.
  std::vector<int> row_buckets = {};
  std::vector<int> request_buckets = {};
  // The sizes of a slot and of a page; 0: not known.
  uint64_t slot_bytes = 0;
  uint64_t page_bytes = 0;
  // What its rounds cost; null if it has not been calibrated.
  std::shared_ptr<const CostTable> costs = nullptr;
  // The checkpoint's defaults for requests that leave a choice open.
  float temperature = 1;
  int32_t top_k = 0;  // 0: no limit.
  float top_p = 1;
  float min_p = 0;
  float repetition_penalty = 1;
};

// Whether the worker copies slots and pages. Versions before 3 do not, so the
// state of one request's text cannot be kept for other requests.
inline bool CopiesMemory(const WorkerDescription& worker) {
  return worker.protocol_version >= 3;
}

// The sampling parameters of a request that leaves every choice to this worker.
inline SamplingParams DefaultSampling(const WorkerDescription& worker) {
  SamplingParams params;
  params.temperature = worker.temperature;
  params.top_k = worker.top_k;
  params.top_p = worker.top_p;
  params.min_p = worker.min_p;
  params.repetition_penalty = worker.repetition_penalty;
  return params;
}

class WorkerClient;

// A worker that may connect from now on. Reported once, before any other news
// of the worker.
struct WorkerAdded {
  std::string name;      // Its address: for status, metrics and messages.
  WorkerClient* client;  // Lives until the scheduler has let the worker go.
};
// The worker will not be connected again: the scheduler lets it go once it is
// lost. Another WorkerAdded before that revokes the removal.
struct WorkerRemoved {};

// News of one worker. Each connection has its own epoch, higher than all
// earlier ones.
struct WorkerConnected {
  uint64_t epoch;
  WorkerDescription description;
};
// The answer to a plan, or to one round of a lease. INVALID_ARGUMENT: the
// worker refused the plan and changed nothing. The sender of the plan checks
// whether the result can be its answer (ValidateResult()).
struct WorkerOutcome {
  uint64_t epoch;
  uint64_t plan_number;
  absl::StatusOr<StepResult> result;
  double step_seconds = 0;  // In the engine.
};
// The worker is about to leave, because it shuts down or because another
// scheduler is to get it. It still takes plans, but should get no new requests.
struct WorkerDraining {
  uint64_t epoch;
  bool draining = true;  // False: it stays nevertheless.
};
// The connection ended, or could not be made. There is no further news of this
// epoch.
struct WorkerLost {
  uint64_t epoch;
  absl::Status why;
  bool closed = false;  // In good order, because Close() was called.
};
using WorkerNews = std::variant<WorkerAdded, WorkerRemoved, WorkerConnected,
                                WorkerOutcome, WorkerDraining, WorkerLost>;

// News, with the worker that it is about.
struct WorkerEvent {
  WorkerId worker;
  WorkerNews news;
};

// Keeps a connection to one worker, and reports WorkerNews to a sink in the
// order in which they happen. There are real, fake, and fault-injecting ones.
//
// The loop takes its turns one after the other, but on several threads: a turn
// may run on the thread that delivers a result.
class WorkerClient {
 public:
  virtual ~WorkerClient() = default;

  // Queues a plan for the worker, with its trace, and returns at once. Plans
  // are numbered 1, 2, 3, ... in every epoch. The plan is dropped if the epoch
  // has ended; WorkerLost is then on its way. Called only in the loop's turns.
  virtual void Send(uint64_t epoch, uint64_t plan_number, const StepPlan& plan,
                    const PlanTrace& trace) = 0;

  // Tells the worker, which has no plan, that these spans have ended
  // (PlanTrace::ended). Otherwise as Send(). Does nothing for workers that keep
  // no spans.
  virtual void EndSpans(uint64_t /*epoch*/,
                        const std::vector<SpanId>& /*spans*/) {}

  // Ends the connection of `epoch` in good order, so that a draining worker can
  // leave. WorkerLost follows. Called only in the loop's turns.
  virtual void Close(uint64_t epoch) = 0;

  // Ends the connection of `epoch` at once, because its worker does not answer
  // or breaks the protocol. WorkerLost follows, with `why`, and another attempt
  // to connect. Called only in the loop's turns.
  virtual void Disconnect(uint64_t epoch, const absl::Status& why) = 0;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_LINKS_WORKER_CLIENT_H_
