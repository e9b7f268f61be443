#include <cmath>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/generated_element.h"
#include "kernels/reference/packed_matrix.h"
#include "kernels/reference/reference_backend.h"

namespace bole {
namespace {

MatrixGenerator Random(int rows, int columns) {
  return {.pattern = MatrixPattern::kRandom,
          .rows = rows,
          .columns = columns,
          .seed = 7,
          .stream = 3,
          .num_blocks = 2,
          .blocks = {{rows / 2, 0.5f}, {rows, 2.0f}}};
}

// Rows 0 .. rows - 1 of a matrix.
std::vector<float> ReadBack(const WeightMatrix* matrix) {
  const auto* packed = static_cast<const reference::PackedMatrix*>(matrix);
  std::vector<float> values;
  std::vector<float> row(packed->columns);
  for (int r = 0; r < packed->rows; ++r) {
    packed->CopyRow(r, row.data());
    values.insert(values.end(), row.begin(), row.end());
  }
  return values;
}

std::vector<float> Generated(const MatrixGenerator& generator,
                             int num_threads = 2) {
  ReferenceBackend backend(num_threads);
  auto matrix = backend.GenerateMatrix(generator);
  EXPECT_TRUE(matrix.ok()) << matrix.status();
  return ReadBack(*matrix);
}

double Deviation(const std::vector<float>& values, size_t begin, size_t end) {
  double sum = 0;
  double squares = 0;
  for (size_t i = begin; i < end; ++i) {
    sum += values[i];
    squares += double{values[i]} * values[i];
  }
  const double count = static_cast<double>(end - begin);
  return std::sqrt(squares / count - sum * sum / (count * count));
}

TEST(GenerateTest, ElementsDeviateAsTheirBlockOfRowsSays) {
  const std::vector<float> values = Generated(Random(64, 514));

  // 16,448 elements a block: the deviation is known to 0.6 %, four times over.
  const size_t half = values.size() / 2;
  EXPECT_NEAR(Deviation(values, 0, half), 0.5, 0.5 * 0.024);
  EXPECT_NEAR(Deviation(values, half, values.size()), 2.0, 2.0 * 0.024);
}

TEST(GenerateTest, SeedAndStreamAndNothingElseChooseTheElements) {
  const MatrixGenerator one = Random(6, 33);
  MatrixGenerator other_seed = one;
  other_seed.seed = 8;
  MatrixGenerator other_stream = one;
  other_stream.stream = 4;

  EXPECT_EQ(Generated(one, 1), Generated(one, 3));
  EXPECT_NE(Generated(one), Generated(other_seed));
  EXPECT_NE(Generated(one), Generated(other_stream));
}

TEST(GenerateTest, APassThroughHasOnesOnTheDiagonalAlone) {
  MatrixGenerator generator = Random(8, 16);
  generator.pattern = MatrixPattern::kPassThrough;
  generator.rest_columns = 10;
  generator.rest_deviation = 4;
  const std::vector<float> values = Generated(generator);
  const std::vector<float> random = Generated(Random(8, 16));

  for (int r = 0; r < 8; ++r) {
    const float rest = r < 4 ? 4 / 0.5f : 4 / 2.0f;
    for (int c = 0; c < 16; ++c) {
      const float expected =
          r == c ? 1.0f : random[r * 16 + c] * (c < 6 ? 1.0f : rest);
      EXPECT_EQ(values[r * 16 + c], expected) << r << " " << c;
    }
  }
}

// A chain of 48 of 64 tokens in 64 + 16 columns.
MatrixGenerator Markov(MatrixPattern pattern) {
  return {.pattern = pattern,
          .rows = 64,
          .columns = 80,
          .seed = 1,
          .stream = 0,
          .code = {.num_tokens = 48,
                   .multiplier = 5,
                   .increment = 3,
                   .code_columns = 64,
                   .rank = {0.5f, 0.25f, -1, 0.75f, 1.5f, -0.5f, 2, 1},
                   .head_code = 0.25f,
                   .head_rank = 0.125f}};
}

TEST(GenerateTest, AHeadTimesAnEmbeddingIsLargeForTheSuccessorsAlone) {
  const std::vector<float> embedding =
      Generated(Markov(MatrixPattern::kEmbedding));
  const std::vector<float> head = Generated(Markov(MatrixPattern::kHead));
  const MarkovCode code = Markov(MatrixPattern::kHead).code;

  for (int token = 0; token < 64; ++token) {
    const int likeliest = (5 * token + 3) % 48;
    for (int next = 0; next < 64; ++next) {
      double group = 0;
      double rank = 0;
      for (int c = 0; c < 80; ++c) {
        const double product =
            double{embedding[token * 80 + c]} * head[next * 80 + c];
        (c < 64 ? group : rank) += product;
      }
      double expected = 0;
      for (int k = 0; k < kSuccessors; ++k) {
        expected += 2 * 0.125 * code.rank[k] * Walsh(k, likeliest ^ next);
      }

      EXPECT_NEAR(rank, expected, 1e-6) << token << " " << next;
      if (likeliest / 8 == next / 8) {
        EXPECT_NEAR(group, 16, 1e-6) << token << " " << next;
      } else {
        EXPECT_LT(std::abs(group), 10) << token << " " << next;
      }
    }
  }
}

}  // namespace
}  // namespace bole
