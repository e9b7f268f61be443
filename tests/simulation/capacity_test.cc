// A thousand requests that run together.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "proto/step_codec.h"
#include "proto/worker.pb.h"
#include "tests/scheduler_service/requests.h"
#include "tests/scheduler_service/scheduler_fixture.h"
#include "tests/scheduler_service/simulated_worker.h"

namespace bole {
namespace {

using ::bole::testing::MakeRequest;
using ::bole::testing::RandomPrompt;
using ::bole::testing::Reader;
using ::bole::testing::SchedulerTest;
using ::bole::testing::SimulatedOutput;
using ::bole::testing::TreeOptions;

constexpr int kRequests = 1000;
constexpr int kTokens = 20;
constexpr size_t kMaxMessageBytes =
    16 << 20;  // As the worker takes; the scheduler takes more.

class CapacityTest : public SchedulerTest {
 protected:
  static SchedulerOptions Options() {
    SchedulerOptions options = TreeOptions();
    options.max_running = kRequests;
    return options;
  }
  // A context of 512 pages, as 32,768 tokens are in pages of 64.
  static StepLimits Limits() {
    return {.max_requests = kRequests,
            .max_nodes = 8 * kRequests,
            .max_nodes_per_tree = 16,
            .max_prefill_tokens = 60 * kRequests,
            .max_draft = {.top_k = 3, .depth = 4},
            .num_slots = kRequests,
            .num_pages = 64 * kRequests,
            .page_size = 2,
            .max_context = 1024,
            .vocabulary = 256};
  }
  CapacityTest() : SchedulerTest(Options(), Limits()) {}
};

TEST_F(CapacityTest, AThousandRequestsRunTogetherAndFitIntoAMessage) {
  Tell(worker_.Connect());
  std::vector<std::vector<int32_t>> prompts;
  std::vector<Reader> readers;
  for (int i = 0; i < kRequests; ++i) {
    prompts.push_back(RandomPrompt(rng_, 60));
    readers.push_back(Ask(MakeRequest(prompts.back(), kTokens, now_)));
  }

  int most_sequences = 0;
  size_t most_bytes = 0;
  size_t most_result_bytes = 0;
  while (worker_.has_plan()) {
    worker::v1::StepPlan plan;
    EncodePlan(worker_.next_plan(), plan);
    most_bytes = std::max(most_bytes, plan.ByteSizeLong());
    most_sequences =
        std::max(most_sequences, plan.sequences_size() + plan.prefills_size());
    WorkerOutcome outcome = worker_.Run();
    worker::v1::StepResult result;
    EncodeResult(*outcome.result, result);
    most_result_bytes = std::max(most_result_bytes, result.ByteSizeLong());
    Tell(std::move(outcome));
  }

  EXPECT_EQ(most_sequences, kRequests);
  // Page tables here are an eighth of the largest, and trees a fourth.
  EXPECT_LT(8 * most_bytes, kMaxMessageBytes);
  EXPECT_LT(4 * most_result_bytes, kMaxMessageBytes);
  for (int i = 0; i < kRequests; ++i) {
    ExpectOutput(readers[i], SimulatedOutput(prompts[i], kTokens));
  }
  ExpectAllFree();
}

}  // namespace
}  // namespace bole
