// The likeliest tokens of every row on the GPU against the reference.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <random>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "kernels/drafting.h"
#include "tests/kernels/cuda/cuda_test.h"
#include "tests/kernels/cuda/device_copies.h"
#include "tests/testing/guarded_buffer.h"
#include "tests/testing/random_tree.h"

namespace bole::testing {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct TopKShape {
  int used_rows;
  int max_rows;
  int vocabulary;
  int num_valid_tokens;
  int top_k;
  bool is_listed = false;  // Columns are tokens of a list.
};

// Random rows, half of them with many ties, and then the hostile ones: all
// equal, all impossible, NaN but for one, and infinite.
std::vector<float> RandomRow(std::mt19937& rng, int vocabulary) {
  std::normal_distribution<float> normal(0, 3);
  const int kind = UniformInt(rng, 0, 11);
  std::vector<float> row(vocabulary);
  for (float& z : row) {
    z = normal(rng);
    if (kind < 5) z = std::round(z);
    if (UniformInt(rng, 0, 199) == 0) z = kNan;
    if (UniformInt(rng, 0, 199) == 0) z = -kInfinity;
    if (kind == 8) z = -1.5f;
    if (kind == 9) z = UniformInt(rng, 0, 1) == 0 ? kNan : -kInfinity;
    if (kind == 10) z = kNan;
    if (kind == 11 && UniformInt(rng, 0, 3) == 0) z = kInfinity;
  }
  if (kind == 10) row[UniformInt(rng, 0, vocabulary - 1)] = -2e30f;
  return row;
}

class TopKTest : public CudaTest {
 protected:
  void Compare(const TopKShape& shape) {
    const size_t rows = shape.max_rows;
    GuardedBuffer<int32_t> count(1);
    count[0] = shape.used_rows;
    GuardedBuffer<float> logits(rows * shape.vocabulary);
    for (int row = 0; row < shape.used_rows; ++row) {
      std::ranges::copy(
          RandomRow(rng_, shape.vocabulary),
          logits.data() + static_cast<size_t>(row) * shape.vocabulary);
    }
    GuardedBuffer<int32_t> list(shape.vocabulary);
    for (int v = 0; v < shape.vocabulary; ++v) list[v] = 1000 + 3 * v;
    GuardedBuffer<int32_t> want_token(rows * shape.top_k);
    GuardedBuffer<float> want_log_prob(rows * shape.top_k);
    GuardedBuffer<int32_t> token = want_token;
    GuardedBuffer<float> log_prob = want_log_prob;
    TopKParams params = {.rows = {count.data(), shape.max_rows},
                         .vocabulary = shape.vocabulary,
                         .num_valid_tokens = shape.num_valid_tokens,
                         .top_k = shape.top_k,
                         .logits = logits.data(),
                         .token_of = shape.is_listed ? list.data() : nullptr,
                         .token = want_token.data(),
                         .log_prob = want_log_prob.data()};
    const absl::Status reference = reference_.TopK(params);
    ASSERT_TRUE(reference.ok()) << reference;

    DeviceCopies device(*cuda_);
    params.rows.count = device.Of(count);
    params.logits = device.Of(logits);
    if (shape.is_listed) params.token_of = device.Of(list);
    params.token = device.Of(token);
    params.log_prob = device.Of(log_prob);
    const absl::Status run = cuda_->TopK(params);
    ASSERT_TRUE(run.ok()) << run;
    ASSERT_NO_FATAL_FAILURE(device.Fetch());

    for (size_t i = 0; i < token.size(); ++i) {
      SCOPED_TRACE(::testing::Message()
                   << "row " << i / shape.top_k << ", place " << i % shape.top_k
                   << ", vocabulary " << shape.vocabulary << ", k "
                   << shape.top_k);
      ASSERT_EQ(token[i], want_token[i]);
      ExpectLogProb(log_prob[i], want_log_prob[i]);
    }
  }

  static void ExpectLogProb(float got, float want) {
    if (std::isnan(want)) {
      EXPECT_TRUE(std::isnan(got)) << got;  // Not in use.
      return;
    }
    EXPECT_LE(got, 0);
    if (std::isinf(want)) {
      EXPECT_EQ(got, want);
      return;
    }
    // Sums of exponentials that are off by 2^-22 of themselves, and a rounding.
    EXPECT_NEAR(got, want, 1e-6 + std::abs(want) * 0x1p-22);
  }
};

INSTANTIATE_TEST_SUITE_P(Elements, TopKTest,
                         ::testing::Values(ElementType::kFloat32), ElementName);

TEST_P(TopKTest, TokensAreEqual) {
  for (int round = 0; round < 200; round += EveryNth(11)) {
    SCOPED_TRACE(round);
    const int max_rows = UniformInt(rng_, 1, 6);
    const int vocabulary = UniformInt(rng_, 1, round % 2 == 0 ? 40 : 9000);
    const int num_valid = UniformInt(rng_, (vocabulary + 1) / 2, vocabulary);

    ASSERT_NO_FATAL_FAILURE(Compare(
        {.used_rows = UniformInt(rng_, 0, max_rows),
         .max_rows = max_rows,
         .vocabulary = vocabulary,
         .num_valid_tokens = num_valid,
         .top_k = UniformInt(rng_, 1, std::min(num_valid, kMaxDraftTopK)),
         .is_listed = round % 5 == 0}));
  }
}

TEST_P(TopKTest, TokensOfAFullVocabularyAreEqual) {
  for (const int top_k : {1, 4, kMaxDraftTopK}) {
    ASSERT_NO_FATAL_FAILURE(Compare({.used_rows = 5,
                                     .max_rows = 6,
                                     .vocabulary = 248320,
                                     .num_valid_tokens = 248077,
                                     .top_k = top_k}));
  }
}

TEST_P(TopKTest, MoreThanAreCompiledIsAnError) {
  const absl::Status status = cuda_->TopK({.rows = {nullptr, 1},
                                           .vocabulary = 100,
                                           .num_valid_tokens = 100,
                                           .top_k = kMaxDraftTopK + 1,
                                           .logits = nullptr,
                                           .token_of = nullptr,
                                           .token = nullptr,
                                           .log_prob = nullptr});

  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
}

}  // namespace
}  // namespace bole::testing
