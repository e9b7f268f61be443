#include "common/trace/span_exporter.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace bole {

SpanExporter::SpanExporter(SpanExporterOptions options)
    : options_(std::move(options)), thread_([this] { Run(); }) {}

SpanExporter::~SpanExporter() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

void SpanExporter::Add(std::vector<Span> spans) {
  size_t dropped = 0;
  {
    MutexLock lock(mutex_);
    const size_t room =
        options_.max_waiting - std::min(options_.max_waiting, waiting_.size());
    if (spans.size() > room) {
      dropped = spans.size() - room;
      spans.resize(room);
    }
    waiting_.insert(waiting_.end(), std::make_move_iterator(spans.begin()),
                    std::make_move_iterator(spans.end()));
    if (waiting_.size() >= options_.max_batch) changed_.NotifyAll();
  }
  if (dropped > 0) Count(SpanOutcome::kDropped, dropped);
}

void SpanExporter::Run() {
  for (;;) {
    const std::vector<Span> batch = Take();
    if (batch.empty()) return;
    Send(batch);
    if (failing_ && DropAtEnd()) return;
  }
}

bool SpanExporter::DropAtEnd() {
  size_t dropped = 0;
  {
    MutexLock lock(mutex_);
    if (!stopping_) return false;
    dropped = waiting_.size();
    waiting_.clear();
  }
  if (dropped > 0) Count(SpanOutcome::kDropped, dropped);
  return true;
}

std::vector<Span> SpanExporter::Take() {
  MutexLock lock(mutex_);
  auto deadline = std::chrono::steady_clock::now() + options_.interval;
  while (!stopping_ && waiting_.size() < options_.max_batch) {
    if (changed_.WaitUntil(mutex_, deadline)) continue;
    if (!waiting_.empty()) break;
    deadline = std::chrono::steady_clock::now() + options_.interval;
  }
  const auto end = waiting_.begin() + static_cast<std::ptrdiff_t>(std::min(
                                          waiting_.size(), options_.max_batch));
  std::vector<Span> batch(std::make_move_iterator(waiting_.begin()),
                          std::make_move_iterator(end));
  waiting_.erase(waiting_.begin(), end);
  return batch;
}

void SpanExporter::Send(const std::vector<Span>& batch) {
  const absl::Status status =
      options_.post(ToOtlpJson(options_.resource, batch));
  Count(status.ok() ? SpanOutcome::kExported : SpanOutcome::kFailed,
        batch.size());
  if (failing_ == !status.ok()) return;
  failing_ = !status.ok();
  if (!options_.note) return;
  options_.note(failing_ ? "spans are lost: " + status.ToString()
                         : "spans are taken again");
}

void SpanExporter::Count(SpanOutcome outcome, size_t count) const {
  if (options_.count) options_.count(outcome, count);
}

}  // namespace bole
