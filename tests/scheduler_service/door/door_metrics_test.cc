#include "scheduler_service/door/door_metrics.h"

#include <string>

#include "gtest/gtest.h"
#include "prometheus/registry.h"
#include "tests/scheduler_service/scrape.h"

namespace bole {
namespace {

using testing::Scrape;

TEST(DoorMetricsTest, EveryReasonStartsAtZero) {
  prometheus::Registry registry;
  const DoorMetrics metrics(registry);

  const auto series = Scrape(registry);

  for (const char* reason :
       {"queue_requests", "queue_tokens", "queue_bytes", "too_many_open",
        "long_messages", "held_output", "invalid_argument", "unimplemented",
        "unknown_model", "no_worker", "draining", "cancelled"}) {
    EXPECT_EQ(series.at("bole_rejected_total{reason=\"" + std::string(reason) +
                        "\"}"),
              0);
  }
  for (const char* reason : {"behind", "stalled", "door_full"}) {
    EXPECT_EQ(series.at("bole_slow_readers_ended_total{reason=\"" +
                        std::string(reason) + "\"}"),
              0);
  }
}

TEST(DoorMetricsTest, EventsAreCountedByReason) {
  prometheus::Registry registry;
  DoorMetrics metrics(registry);

  metrics.Refused(RefusalReason::kInvalid);
  metrics.Refused(RefusalReason::kInvalid);
  metrics.TextRefused(RefusalReason::kLongMessages);
  metrics.ReaderEnded(ReaderFault::kStalled);

  const auto series = Scrape(registry);
  EXPECT_EQ(series.at("bole_rejected_total{reason=\"invalid_argument\"}"), 2);
  EXPECT_EQ(
      series.at("bole_text_calls_rejected_total{reason=\"long_messages\"}"), 1);
  EXPECT_EQ(series.at("bole_slow_readers_ended_total{reason=\"stalled\"}"), 1);
}

TEST(DoorMetricsTest, TheLoadIsASnapshot) {
  prometheus::Registry registry;
  DoorMetrics metrics(registry);

  metrics.SetLoad({.open_requests = 1,
                   .undelivered_bytes = 2,
                   .kept_bytes = 3,
                   .long_generates = 4,
                   .long_texts = 5});

  const auto series = Scrape(registry);
  EXPECT_EQ(series.at("bole_open_requests"), 1);
  EXPECT_EQ(series.at("bole_output_bytes{state=\"undelivered\"}"), 2);
  EXPECT_EQ(series.at("bole_output_bytes{state=\"kept\"}"), 3);
  EXPECT_EQ(series.at("bole_long_messages_waiting{of=\"generate\"}"), 4);
  EXPECT_EQ(series.at("bole_long_messages_waiting{of=\"text\"}"), 5);
}

}  // namespace
}  // namespace bole
