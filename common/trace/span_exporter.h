// Sends spans to a collector, off the threads that make them.
#ifndef BOLE_COMMON_TRACE_SPAN_EXPORTER_H_
#define BOLE_COMMON_TRACE_SPAN_EXPORTER_H_

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/mutex.h"
#include "common/trace/otlp_json.h"
#include "common/trace/span.h"

namespace bole {

// What became of a span.
enum class SpanOutcome {
  kExported,
  kDropped,  // The queue was full.
  kFailed,   // The collector did not take its batch.
};

struct SpanExporterOptions {
  SpanResource resource;
  // Posts a body of OTLP's JSON, and may block. An error loses the batch: it is
  // not sent again.
  std::function<absl::Status(const std::string& body)> post;
  // Counts spans; called by any thread. May be null.
  std::function<void(SpanOutcome outcome, size_t count)> count = nullptr;
  // Called on the first failure after a success, and on the first success after
  // failures. May be null.
  std::function<void(const std::string& what)> note = nullptr;
  size_t max_waiting = 4096;
  size_t max_batch = 512;
  std::chrono::milliseconds interval{
      1000};  // Between batches that are not full.
};

// A bounded queue and a thread that empties it. Thread-safe.
class SpanExporter {
 public:
  explicit SpanExporter(SpanExporterOptions options);
  // Sends the waiting spans, until the collector fails, and ends the thread.
  ~SpanExporter();

  SpanExporter(const SpanExporter&) = delete;
  SpanExporter& operator=(const SpanExporter&) = delete;

  // Never blocks on the collector: spans that exceed max_waiting are dropped.
  void Add(std::vector<Span> spans);

 private:
  void Run();
  // A batch, once it is full or the interval is over; empty at the end.
  std::vector<Span> Take();
  void Send(const std::vector<Span>& batch);
  // If the exporter is stopping, drops the waiting spans and returns true.
  bool DropAtEnd();
  void Count(SpanOutcome outcome, size_t count) const;

  const SpanExporterOptions options_;
  bool failing_ = false;  // Used only by the exporter's thread.

  Mutex mutex_;
  CondVar changed_;
  std::vector<Span> waiting_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  std::thread thread_;
};

}  // namespace bole

#endif  // BOLE_COMMON_TRACE_SPAN_EXPORTER_H_
