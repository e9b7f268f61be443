// Captured graphs by key, and the scratch that is reserved for operators.
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "kernels/graph_set.h"
#include "kernels/scratch_meter.h"
#include "tests/kernels/cuda/cuda_test.h"
#include "tests/kernels/cuda/device_copies.h"
#include "tests/testing/guarded_buffer.h"

namespace bole::testing {
namespace {

class GraphsTest : public CudaTest {};

INSTANTIATE_TEST_SUITE_P(Elements, GraphsTest,
                         ::testing::Values(ElementType::kFloat32), ElementName);

// The four likeliest tokens of one row.
struct TopKCase {
  explicit TopKCase(DeviceCopies& device)
      : logits(5000), token(4), log_prob(4) {
    count[0] = 1;
    for (int v = 0; v < 5000; ++v) logits[v] = static_cast<float>(v % 977);
    params = {.rows = {device.Of(count), 1},
              .vocabulary = 5000,
              .num_valid_tokens = 5000,
              .top_k = 4,
              .logits = device.Of(logits),
              .token_of = nullptr,
              .token = device.Of(token),
              .log_prob = device.Of(log_prob)};
  }

  GuardedBuffer<int32_t> count{1};
  GuardedBuffer<float> logits;
  GuardedBuffer<int32_t> token;
  GuardedBuffer<float> log_prob;
  TopKParams params;
};

TEST_P(GraphsTest, AsManyAreKeptAsThereMayBe) {
  DeviceCopies device(*cuda_);
  const TopKCase c(device);
  const std::unique_ptr<GraphSet> graphs = cuda_->MakeGraphs(2);
  int num_queued = 0;
  const auto replay = [&](int32_t key) {
    const absl::Status status = graphs->Replay({key}, [&] {
      ++num_queued;
      return cuda_->TopK(c.params);
    });
    EXPECT_TRUE(status.ok()) << status;
  };

  EXPECT_EQ(graphs->capacity(), 2);
  for (const int32_t key : {1, 2, 1, 2, 1}) replay(key);
  EXPECT_EQ(graphs->num_misses(), 2);
  EXPECT_EQ(num_queued, 4);  // Each once to run, and once to be captured.

  replay(3);  // In the place of 2.
  replay(1);
  EXPECT_EQ(graphs->num_misses(), 3);
  replay(2);
  EXPECT_EQ(graphs->num_misses(), 4);
  ASSERT_NO_FATAL_FAILURE(device.Fetch());
  EXPECT_EQ(c.token[0], 976);
}

TEST_P(GraphsTest, AnOperatorThatNeedsMoreThanIsReservedFails) {
  DeviceCopies device(*cuda_);
  const TopKCase c(device);
  const std::unique_ptr<ScratchMeter> meter = cuda_->MakeScratchMeter();
  ASSERT_NE(meter, nullptr);
  ASSERT_TRUE(meter->TopK(c.params).ok());
  ASSERT_GT(meter->bytes(), 0u);

  ASSERT_TRUE(cuda_->ReserveScratch(meter->bytes() - 1).ok());
  const absl::Status refused = cuda_->TopK(c.params);
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;

  ASSERT_TRUE(cuda_->ReserveScratch(meter->bytes()).ok());
  const absl::Status run = cuda_->TopK(c.params);
  EXPECT_TRUE(run.ok()) << run;
  ASSERT_NO_FATAL_FAILURE(device.Fetch());
  EXPECT_EQ(c.token[0], 976);
}

}  // namespace
}  // namespace bole::testing
