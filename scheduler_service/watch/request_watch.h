// Reports the course of a request to its trace and to the log.
#ifndef BOLE_SCHEDULER_SERVICE_WATCH_REQUEST_WATCH_H_
#define BOLE_SCHEDULER_SERVICE_WATCH_REQUEST_WATCH_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/log/log.h"
#include "common/trace/span.h"
#include "common/trace/span_exporter.h"
#include "common/trace/trace_context.h"
#include "scheduler_service/jobs/refusal.h"
#include "scheduler_service/jobs/token_stream.h"

namespace bole {

// Which requests are logged.
enum class LoggedRequests {
  kNone,
  kFailures,  // Those that were refused, failed, or moved to another worker.
  kAll,       // Also those that succeeded.
};

struct RequestWatcherOptions {
  SpanExporter* spans = nullptr;  // Null: nothing is traced.
  double sample_rate = 0;         // For requests whose callers do not decide.
  const Log* log = nullptr;       // Null: nothing is logged.
  LoggedRequests logged = LoggedRequests::kNone;
};

// A call, before its message is read.
struct WatchedRequest {
  std::string id;           // Given by its client or by the door.
  std::string tenant;       // Empty: none, or not known.
  std::string traceparent;  // The caller's; empty or invalid: none.
  std::chrono::steady_clock::time_point arrival;
};

class RequestWatch;

// One call, from its arrival until its client has received everything. Its
// spans are "generate", which is a child of the caller's span, and below that
// "admission", and "delivery", which lasts from the first token of any choice
// to the end. It ends when it is destroyed: its call and its requests hold it.
//
// Of a request it only stores the id and the tenant: no text, token or secret.
class CallWatch : public std::enable_shared_from_this<CallWatch> {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  CallWatch(const RequestWatcherOptions& options, WatchedRequest request);
  ~CallWatch();

  CallWatch(const CallWatch&) = delete;
  CallWatch& operator=(const CallWatch&) = delete;

  // The call is not admitted. REQUIRES: at most once, and nothing after it.
  void Refused(const Refusal& refusal);
  // The message was read, and its choices are about to be submitted.
  void Read(const std::string& id, const std::string& tenant,
            const std::string& model, int prompt_tokens);
  // REQUIRES: Read().
  std::shared_ptr<RequestWatch> Choice(uint32_t index);

  bool is_sampled() const { return sampled_; }
  const TraceContext& context() const { return context_; }

 private:
  friend class RequestWatch;

  // Adds a span of this call, if it is sampled; its parent is the call's span.
  void AddSpan(std::string name, TimePoint start, TimePoint end,
               std::vector<std::pair<std::string, SpanValue>> attributes,
               std::string error = "", SpanId id = NewSpanId());
  void Log(LogLevel level, const char* message,
           std::vector<LogField> fields) const;
  int64_t UnixNanoseconds(TimePoint time) const;

  const RequestWatcherOptions options_;
  const std::optional<TraceContext> caller_;
  const TimePoint arrival_;
  const int64_t arrival_ns_;  // Since 1970.
  TraceContext context_;      // The call's own span.
  bool sampled_ = false;
  std::string id_;
  std::string tenant_;
  std::string model_;
  int prompt_tokens_ = 0;
  std::string error_;
  std::optional<TimePoint> first_token_;
  std::vector<Span> spans_;
};

// One choice of a call. Its spans are "queue", "prefill" and "rounds"; after a
// loss or a preemption they are repeated. Used by one thread at a time.
class RequestWatch {
 public:
  using TimePoint = CallWatch::TimePoint;

  RequestWatch(std::shared_ptr<CallWatch> call, uint32_t index);

  // The request has got a place; the worker's name is its address.
  void Placed(TimePoint now, const std::string& worker);
  // A round emitted tokens for it.
  void Advanced(TimePoint now, int tokens);
  // It has lost its place, and waits for another one.
  void Displaced(TimePoint now, const char* reason);
  void Ended(TimePoint now, const absl::StatusOr<Completion>& end,
             int output_tokens);

  // The current span, as the parent of a worker's spans; absent if the request
  // is not sampled.
  std::optional<TraceContext> span() const;

 private:
  void EndPhase(TimePoint now, const std::string& error);

  // What the request does: it waits, is prefilled, or decodes.
  enum class Phase { kQueue, kPrefill, kRounds };

  const std::shared_ptr<CallWatch> call_;
  const uint32_t index_;
  Phase phase_ = Phase::kQueue;
  TimePoint since_;
  SpanId span_id_;  // The current phase's span.
  std::string worker_;
  int64_t rounds_ = 0;  // Rounds in the current phase.
  int64_t tokens_ = 0;
  int64_t accepted_drafts_ = 0;  // Set for the whole request at its end.
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_WATCH_REQUEST_WATCH_H_
