#include "common/trace/span_exporter.h"

#include <array>
#include <chrono>
#include <cstddef>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/mutex.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace bole {
namespace {

std::vector<Span> Spans(int count) {
  return std::vector<Span>(static_cast<size_t>(count),
                           Span{.trace_id = NewTraceId(),
                                .span_id = NewSpanId(),
                                .name = "a",
                                .start_ns = 1,
                                .end_ns = 2});
}

// Takes what is posted, or holds it up, or fails.
class Collector {
 public:
  absl::Status Post(const std::string& body) {
    MutexLock lock(mutex_);
    ++posts_;
    changed_.NotifyAll();
    while (held_) changed_.Wait(mutex_);
    if (!answer_.ok()) return answer_;
    const auto json = nlohmann::json::parse(body);
    batches_.push_back(
        json["resourceSpans"][0]["scopeSpans"][0]["spans"].size());
    changed_.NotifyAll();
    return absl::OkStatus();
  }
  void Hold(bool held) {
    MutexLock lock(mutex_);
    held_ = held;
    changed_.NotifyAll();
  }
  void Answer(absl::Status answer) {
    MutexLock lock(mutex_);
    answer_ = std::move(answer);
  }
  void AwaitPosts(int count) {
    MutexLock lock(mutex_);
    while (posts_ < count) changed_.Wait(mutex_);
  }
  std::vector<size_t> AwaitBatches(size_t count) {
    MutexLock lock(mutex_);
    while (batches_.size() < count) changed_.Wait(mutex_);
    return batches_;
  }
  void Count(SpanOutcome outcome, size_t count) {
    MutexLock lock(mutex_);
    counts_[static_cast<size_t>(outcome)] += count;
    changed_.NotifyAll();
  }
  size_t count(SpanOutcome outcome) {
    MutexLock lock(mutex_);
    return counts_[static_cast<size_t>(outcome)];
  }
  void Note(const std::string& note) {
    MutexLock lock(mutex_);
    notes_.push_back(note);
  }
  std::vector<std::string> notes() {
    MutexLock lock(mutex_);
    return notes_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  int posts_ = 0;
  bool held_ = false;
  absl::Status answer_;
  std::vector<size_t> batches_;
  std::array<size_t, 3> counts_{};
  std::vector<std::string> notes_;
};

SpanExporterOptions OptionsFor(Collector& collector) {
  return {.resource = {.service = "s", .instance = "i"},
          .post = [&](const std::string& body) { return collector.Post(body); },
          .count = [&](SpanOutcome outcome,
                       size_t count) { collector.Count(outcome, count); },
          .note = [&](const std::string& note) { collector.Note(note); },
          .max_waiting = 10,
          .max_batch = 4,
          .interval = std::chrono::hours(1)};
}

TEST(SpanExporterTest, SendsFullBatchesAtOnceAndTheRestAtTheEnd) {
  Collector collector;
  {
    SpanExporter exporter(OptionsFor(collector));
    exporter.Add(Spans(4));
    EXPECT_EQ(collector.AwaitBatches(1), (std::vector<size_t>{4}));
    exporter.Add(Spans(3));
  }
  EXPECT_EQ(collector.AwaitBatches(2), (std::vector<size_t>{4, 3}));
  EXPECT_EQ(collector.count(SpanOutcome::kExported), 7u);
  EXPECT_EQ(collector.notes(), std::vector<std::string>());
}

TEST(SpanExporterTest, SendsWhatThereIsAfterTheInterval) {
  Collector collector;
  SpanExporterOptions options = OptionsFor(collector);
  options.interval = std::chrono::milliseconds(1);
  SpanExporter exporter(std::move(options));
  exporter.Add(Spans(1));
  EXPECT_EQ(collector.AwaitBatches(1), (std::vector<size_t>{1}));
}

TEST(SpanExporterTest, ACollectorThatHangsBlocksNobodyAndCostsSpans) {
  Collector collector;
  collector.Hold(true);
  SpanExporter exporter(OptionsFor(collector));
  exporter.Add(Spans(4));
  collector.AwaitPosts(1);
  for (int i = 0; i < 8; ++i) exporter.Add(Spans(2));
  // Ten wait, of the sixteen; the first four are on their way.
  EXPECT_EQ(collector.count(SpanOutcome::kDropped), 6u);
  collector.Hold(false);
  collector.AwaitBatches(3);
}

TEST(SpanExporterTest, AFailureLosesItsBatchAndIsToldOnce) {
  Collector collector;
  collector.Answer(absl::UnavailableError("HTTP status 503"));
  SpanExporter exporter(OptionsFor(collector));
  exporter.Add(Spans(4));
  exporter.Add(Spans(4));
  collector.AwaitPosts(2);
  while (collector.count(SpanOutcome::kFailed) < 8) std::this_thread::yield();
  collector.Answer(absl::OkStatus());
  exporter.Add(Spans(4));
  collector.AwaitBatches(1);
  while (collector.notes().size() < 2) std::this_thread::yield();
  EXPECT_EQ(collector.notes()[0],
            "spans are lost: UNAVAILABLE: HTTP status 503");
  EXPECT_EQ(collector.notes()[1], "spans are taken again");
}

TEST(SpanExporterTest, ACollectorThatIsGoneDoesNotDelayTheEnd) {
  Collector collector;
  collector.Answer(absl::UnavailableError("gone"));
  {
    SpanExporterOptions options = OptionsFor(collector);
    options.max_batch = 2;
    collector.Hold(true);
    SpanExporter exporter(std::move(options));
    exporter.Add(Spans(2));
    collector.AwaitPosts(1);
    exporter.Add(Spans(8));
    collector.Hold(false);
  }
  EXPECT_EQ(collector.count(SpanOutcome::kFailed) +
                collector.count(SpanOutcome::kDropped),
            10u);
}

}  // namespace
}  // namespace bole
