// Admits requests: the one way in for every protocol.
#ifndef BOLE_SCHEDULER_SERVICE_DOOR_FRONT_DOOR_H_
#define BOLE_SCHEDULER_SERVICE_DOOR_FRONT_DOOR_H_

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>

#include "absl/status/statusor.h"
#include "prometheus/registry.h"
#include "scheduler_service/door/access.h"
#include "scheduler_service/door/asked_models.h"
#include "scheduler_service/door/door_limits.h"
#include "scheduler_service/door/door_metrics.h"
#include "scheduler_service/door/identity.h"
#include "scheduler_service/door/open_calls.h"
#include "scheduler_service/door/request_body.h"
#include "scheduler_service/door/task_pool.h"
#include "scheduler_service/jobs/refusal.h"
#include "scheduler_service/jobs/request.h"
#include "scheduler_service/links/worker_client.h"
#include "scheduler_service/models/model_text.h"
#include "scheduler_service/scheduler_loop.h"

namespace bole {

class RequestWatcher;

// Messages of up to this size are read within milliseconds.
inline constexpr size_t kShortMessageBytes = 16 << 10;

// What is known of a request before its message is read.
struct RequestHead {
  std::string tenant = {};  // The one that the client names, if any.
  // The value of "authorization"; empty if there is none.
  std::string authorization = {};
  std::string traceparent = {};  // As in W3C Trace Context; or empty.
  std::string model = {};        // Empty: the only model.
  size_t bytes = 0;              // The size of the message.
};

// A message that was read: the requests to submit, and the model that answers.
struct ReadMessage {
  AskedModel model;
  ChoiceRequests choices;
};

// Reads the message as a request to that model. Errors are the client's fault.
using ReadBody = std::function<absl::StatusOr<RequestBody>(
    const ModelText& text, const WorkerDescription& worker)>;

// Admits requests: it identifies the caller, finds the model that answers,
// applies the bounds on calls, messages and output, tokenizes the prompt, and
// hands the requests to the loop. Each protocol is a thin layer in a folder
// below: it opens a call in open_calls(), calls Read() and then Submit(), and
// writes what arrives on the streams of the requests.
//
// A refusal that waiting may lift says when to retry: when the scheduler should
// have taken in what waits now.
//
// Thread-safe. Calls must have ended before it is destroyed.
class FrontDoor {
 public:
  // The references must outlive the door. If `access` is null, everybody may do
  // everything, as whatever tenant they name. `watcher` is told of every
  // request; it may be null.
  FrontDoor(const DoorLimits& limits, const AskedModels& models,
            SchedulerLoop& loop, prometheus::Registry& registry,
            Access* access = nullptr, const RequestWatcher* watcher = nullptr);

  const DoorLimits& limits() const { return limits_; }
  const AskedModels& models() const { return models_; }
  OpenCalls& open_calls() { return open_calls_; }
  DoorMetrics& metrics() { return metrics_; }
  const RequestWatcher* watcher() const { return watcher_; }
  // Long messages are read here, one after the other, so that they delay no
  // call whose message is short.
  TaskPool& long_generates() { return long_generates_; }
  TaskPool& long_texts() { return long_texts_; }  // (De)tokenization.
  // What the loop appends to streams is encoded here.
  TaskPool& delivery() { return delivery_; }

  // Refuses all requests that arrive from now on.
  void Drain() { draining_.store(true); }
  bool draining() const { return draining_.load(); }

  // Returns why the caller may not make a call that needs `scope`, if so. A
  // call that needs none is open to every known caller. Check() and Read()
  // include this for Generate.
  std::optional<Refusal> Authorize(const RequestHead& head,
                                   std::optional<Scope> scope) const;

  // The tenant of the caller, if the caller is known; for reports of calls that
  // are refused.
  std::string TenantOf(const RequestHead& head) const;

  // Returns why the request would be refused whatever its message says, if so.
  // The call itself counts among the open ones.
  std::optional<Refusal> Check(const RequestHead& head) const;

  // Returns the tokenized requests, without arrival, deadline and stream.
  // `read` is not called if Check() refuses. COST: that of ToRequests().
  std::variant<ReadMessage, Refusal> Read(const RequestHead& head,
                                          const ReadBody& read) const;

  // As SchedulerLoop::Submit().
  [[nodiscard]] std::optional<Refusal> Submit(
      std::span<std::unique_ptr<Request>> requests);

  // The refusal of a long message because `pool` is full.
  Refusal RefuseLongMessage(const TaskPool& pool) const;

 private:
  // A caller that is let in, and the model that answers.
  struct Entry {
    Identity who;
    AskedModel model;
  };

  std::variant<Identity, Refusal> Identified(const RequestHead& head,
                                             std::optional<Scope> scope) const;
  std::variant<Entry, Refusal> Enter(const RequestHead& head) const;
  std::optional<Refusal> CheckCalls() const;
  // Adds the time to retry to a refusal that needs one.
  Refusal Timed(Refusal refusal) const;
  void ReportLoad(const OpenCallsLoad& load);

  const DoorLimits limits_;
  const AskedModels& models_;
  SchedulerLoop& loop_;
  Access* const access_;                 // May be null.
  const RequestWatcher* const watcher_;  // May be null.
  DoorMetrics metrics_;
  std::atomic<bool> draining_{false};
  // Threads that use what is above them, so they come last.
  TaskPool delivery_;
  TaskPool long_generates_;
  TaskPool long_texts_;
  OpenCalls open_calls_;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_DOOR_FRONT_DOOR_H_
