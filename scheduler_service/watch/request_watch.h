// What becomes of a request, told to its trace and to the log.
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

// Which requests have lines in the log.
enum class LoggedRequests {
  kNone,
  kFailures,  // Those that were refused, failed, or moved to another worker.
  kAll,       // Those that ended well, too.
};

struct RequestWatcherOptions {
  SpanExporter* spans = nullptr;  // Null: nothing is traced.
  double sample_rate = 0;         // Of the requests whose callers do not say.
  const Log* log = nullptr;       // Null: nothing is logged.
  LoggedRequests logged = LoggedRequests::kNone;
};

// A call, before its message is read.
struct WatchedRequest {
  std::string id;           // As its client or its door calls it.
  std::string tenant;       // Empty: none, or not known.
  std::string traceparent;  // The caller's; empty or wrong: it has none.
  std::chrono::steady_clock::time_point arrival;
};

class RequestWatch;

// One call, from its arrival until its client has everything. Its spans are
// "generate", which is the caller's child, and below that "admission"; and
// "delivery", from the first token of any choice to the end. It ends when it is
// destroyed: its call and its requests hold it.
//
// Never has more of a request than its id and tenant: no text, token or secret.
class CallWatch : public std::enable_shared_from_this<CallWatch> {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  CallWatch(const RequestWatcherOptions& options, WatchedRequest request);
  ~CallWatch();

  CallWatch(const CallWatch&) = delete;
  CallWatch& operator=(const CallWatch&) = delete;

  // It is not admitted. REQUIRES: at most once, and nothing after it.
  void Refused(const Refusal& refusal);
  // It is read, and its choices are about to be submitted.
  void Read(const std::string& id, const std::string& tenant,
            const std::string& model, int prompt_tokens);
  // REQUIRES: Read().
  std::shared_ptr<RequestWatch> Choice(uint32_t index);

  bool is_sampled() const { return sampled_; }
  const TraceContext& context() const { return context_; }

 private:
  friend class RequestWatch;

  // Adds a span of this call, if it is sampled; its parent is the call's.
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
// loss or a preemption they come again. Used by one thread at a time.
class RequestWatch {
 public:
  using TimePoint = CallWatch::TimePoint;

  RequestWatch(std::shared_ptr<CallWatch> call, uint32_t index);

  // It has got a place; the worker's name is its address.
  void Placed(TimePoint now, const std::string& worker);
  // A round brought tokens.
  void Advanced(TimePoint now, int tokens);
  // It has lost its place, and waits for another one.
  void Displaced(TimePoint now, const char* reason);
  void Ended(TimePoint now, const absl::StatusOr<Completion>& end,
             int output_tokens);

  // The span that it is in, for a worker's spans below that one; absent if it
  // is not sampled.
  std::optional<TraceContext> span() const;

 private:
  void EndPhase(TimePoint now, const std::string& error);

  // Since when it waits, prefills, or has its rounds.
  enum class Phase { kQueue, kPrefill, kRounds };

  const std::shared_ptr<CallWatch> call_;
  const uint32_t index_;
  Phase phase_ = Phase::kQueue;
  TimePoint since_;
  SpanId span_id_;  // The span that the phase will be.
  std::string worker_;
  int64_t rounds_ = 0;  // Of the phase, and their tokens.
  int64_t tokens_ = 0;
  int64_t accepted_drafts_ = 0;  // Of the whole request, once it has ended.
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_WATCH_REQUEST_WATCH_H_
