#include <cstdint>
#include <optional>
#include <utility>

#include "gtest/gtest.h"
#include "kernels/reference/reference_backend.h"
#include "worker_service/eval/bench_decode.h"
#include "worker_service/eval/bench_prefill.h"
#include "worker_service/eval/bench_report.h"
#include "worker_service/loading/loaded_model.h"

namespace bole {
namespace {

class BenchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto model = LoadModel("synthetic:tiny,noise=0,spread=0", backend_);
    ASSERT_TRUE(model.ok()) << model.status();
    model_ = *std::move(model);
  }

  DecodeTimes Decode(const DecodeCase& decode) {
    auto times = RunDecode(model_, backend_, decode);
    EXPECT_TRUE(times.ok()) << times.status();
    return *times;
  }

  ReferenceBackend backend_{/*num_threads=*/1};
  LoadedModel model_;
};

// The prefill emits one of the 40 tokens and 39 rounds emit the others. The
// first four rounds are not timed.
TEST_F(BenchTest, PlainDecodingEmitsATokenARoundAndRequest) {
  const DecodeTimes times = Decode({.draft = std::nullopt,
                                    .batch = 3,
                                    .prompt_tokens = 10,
                                    .output_tokens = 40});

  EXPECT_EQ(times.rounds, 35);
  EXPECT_EQ(times.tokens, 3 * 35);
  EXPECT_EQ(times.acceptance.mean, 1);
  EXPECT_GT(times.seconds, 0);
}

// A drafter without noise is always right: 9 tokens a round at depth 8.
TEST_F(BenchTest, ATreeOfAPerfectDrafterIsAcceptedToItsDepth) {
  const DecodeTimes times = Decode({.draft = DraftShape{4, 8},
                                    .nodes = 64,
                                    .batch = 2,
                                    .prompt_tokens = 5,
                                    .output_tokens = 1 + 9 * 8,
                                    .time_phases = true});

  EXPECT_EQ(times.acceptance.mean, 9);
  EXPECT_EQ(times.rounds, 4);
  EXPECT_EQ(times.tokens, 2 * 9 * 4);
  const EngineTimes& device = times.device;
  EXPECT_EQ(device.rounds, 4);
  EXPECT_GT(device.draft, 0);
  EXPECT_LE(device.forward + device.accept + device.draft, device.busy * 1.001);
}

TEST_F(BenchTest, TooShortAnOutputIsNoMeasurement) {
  EXPECT_EQ(
      RunDecode(model_, backend_, {.draft = std::nullopt, .output_tokens = 4})
          .status()
          .code(),
      absl::StatusCode::kInvalidArgument);
}

TEST_F(BenchTest, PrefillAndProductsAreTimed) {
  EXPECT_GT(*PrefillSeconds(model_, backend_, 200, 128), 0);
  EXPECT_GT(*MatrixRate(backend_, 64), 0);
}

// The model has 3 linear layers, one attention layer and the head, and a hidden
// size of 128.
TEST_F(BenchTest, CountsWhatAStepReads) {
  const int64_t linear = (2 * 64 + 128 + 128 + 8) * 128 + 128 * 128;
  const int64_t attention = (2 * 128 + 2 * 64) * 128 + 128 * 128;
  const int64_t ffn = 3 * 192 * 128;
  const int64_t layers = 3 * linear + attention + 4 * ffn;

  EXPECT_EQ(ElementsPerToken(model_), layers);
  EXPECT_EQ(ElementsRead(model_, 5), layers + 2048 * 128);
  // A linear layer's state has 4 heads of 32 by 32 floats. A token's keys and
  // values have 2 heads of 32 elements each.
  EXPECT_EQ(StateBytes(model_.config), 3 * 4 * 32 * 32 * 4);
  EXPECT_EQ(KvElements(model_.config), 2 * 2 * 32);
}

}  // namespace
}  // namespace bole
