#include "worker_service/serving/worker_metrics.h"

#include <string>

#include "common/step.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "prometheus/text_serializer.h"
#include "tests/testing/random_step.h"
#include "worker_service/engine/memory_plan.h"
#include "worker_service/loop/compute_loop.h"

namespace bole {
namespace {

using ::bole::testing::RandomPlanLimits;
using ::testing::HasSubstr;

TEST(WorkerMetricsTest, CopiesAndTheirBytesAreCounted) {
  const StepLimits limits = RandomPlanLimits();
  WorkerMetrics metrics;
  metrics.SetSizes(limits, {.states = 5 * 700,
                            .kv_pages = 10 * 30,
                            .num_slots = 3,
                            .num_checkpoints = 2,
                            .num_pages = 10});
  for (const int copies : {0, 2}) {
    metrics.Stepped({.stream = 1,
                     .sequence = 1,
                     .result = StepResult{},
                     .slot_copies = copies,
                     .page_copies = 1});
  }
  const std::string text =
      prometheus::TextSerializer().Serialize(metrics.registry()->Collect());

  EXPECT_THAT(text, HasSubstr("bole_worker_copies_total{kind=\"slot\"} 2"));
  EXPECT_THAT(text, HasSubstr("bole_worker_copies_total{kind=\"page\"} 2"));
  EXPECT_THAT(text, HasSubstr("bole_worker_copied_bytes_total 1460"));
}

}  // namespace
}  // namespace bole
