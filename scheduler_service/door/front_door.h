// Who may ask what: the one way in for every protocol.
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

// Messages up to here are read within milliseconds.
inline constexpr size_t kShortMessageBytes = 16 << 10;

// What is known of a request before its message is read.
struct RequestHead {
  std::string tenant = {};  // As the client calls itself; empty: it does not.
  // The value of "authorization"; empty if there is none.
  std::string authorization = {};
  std::string traceparent = {};  // As W3C's Trace Context has it; or empty.
  std::string model = {};        // Empty: the only one.
  size_t bytes = 0;              // The size of the message.
};

// A message that was read: what is to be submitted, and the model that answers.
struct ReadMessage {
  AskedModel model;
  ChoiceRequests choices;
};

// Reads the message as what is asked of that model. An error is the client's
// to mend.
using ReadBody = std::function<absl::StatusOr<RequestBody>(
    const ModelText& text, const WorkerDescription& worker)>;

// Says who may ask what: it knows who asks, which model answers, and the bounds
// on calls, messages and output; it makes tokens of a prompt, and hands
// requests to the loop. What speaks a protocol is a thin writer in a folder
// below: it opens a call in open_calls(), calls Read() and then Submit(), and
// writes what comes on the streams of the requests.
//
// A refusal that time may lift says when to come again: when the scheduler
// should have taken in what waits now.
//
// Thread-safe. Calls must have ended before it is destroyed.
class FrontDoor {
 public:
  // The references must outlive the door. Without `access`, which may be null,
  // everybody may do everything, under whatever tenant they say. `watcher`,
  // which may be null, is told of every request.
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
  TaskPool& long_texts() { return long_texts_; }  // Tokenized and back, alone.
  // What the loop appends to streams is encoded here.
  TaskPool& delivery() { return delivery_; }

  // Requests that come from now on are refused.
  void Drain() { draining_.store(true); }
  bool draining() const { return draining_.load(); }

  // Why the caller may not do what needs `scope`; what needs none is for every
  // caller that is known. For all that is not Generate.
  std::optional<Refusal> Authorize(const RequestHead& head,
                                   std::optional<Scope> scope) const;

  // Who calls, if the caller is known; for what is told of refused calls.
  std::string TenantOf(const RequestHead& head) const;

  // Why the request has no chance, whatever its message says. The call counts
  // among the open ones.
  std::optional<Refusal> Check(const RequestHead& head) const;

  // The requests in tokens, without arrival, deadline and stream. `read` is not
  // called if Check() refuses. COST: that of ToRequests().
  std::variant<ReadMessage, Refusal> Read(const RequestHead& head,
                                          const ReadBody& read) const;

  // As SchedulerLoop::Submit().
  [[nodiscard]] std::optional<Refusal> Submit(
      std::span<std::unique_ptr<Request>> requests);

  // Why a long message is not read: `pool` is full.
  Refusal RefuseLongMessage(const TaskPool& pool) const;

 private:
  // Who comes in, and the model that answers.
  struct Entry {
    Identity who;
    AskedModel model;
  };

  std::variant<Identity, Refusal> Identified(const RequestHead& head,
                                             std::optional<Scope> scope) const;
  std::variant<Entry, Refusal> Enter(const RequestHead& head) const;
  std::optional<Refusal> CheckCalls() const;
  // `refusal`, and when to come again.
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
