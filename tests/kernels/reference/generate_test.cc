#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <numeric>
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
          .blocks = {{rows / 2, 0.5f, 0, 0}, {rows, 2.0f, 0, 0}}};
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

// The part as the host takes it out of the whole.
std::vector<float> Cut(const MatrixGenerator& whole, const MatrixPart& part) {
  const std::vector<float> values = Generated(whole);
  std::vector<float> cut;
  for (int i = 0; i < part.num_ranges; ++i) {
    for (int r = 0; r < part.ranges[i].count; ++r) {
      const auto row =
          values.begin() +
          static_cast<ptrdiff_t>(part.ranges[i].first + r) * whole.columns +
          part.first_column;
      cut.insert(cut.end(), row, row + part.columns);
    }
  }
  return cut;
}

TEST(GenerateTest, APartIsASliceOfTheWholeWhateverThePattern) {
  MarkovCode code = {};
  code.seed = 7;
  code.num_tokens = 128;
  code.stretch = 16;
  code.passages = 1;
  code.code_columns = 8;
  std::iota(std::begin(code.rank), std::end(code.rank), 1);
  code.head_code = 0.5f;
  code.head_rank = 0.25f;
  // Across the border of two blocks of rows, out of order, and one row twice.
  const MatrixPart part = {.num_ranges = 3,
                           .ranges = {{60, 9}, {3, 2}, {68, 1}},
                           .first_column = 12,
                           .columns = 17};
  for (const MatrixPattern pattern :
       {MatrixPattern::kRandom, MatrixPattern::kSelection,
        MatrixPattern::kEmbedding, MatrixPattern::kHead}) {
    MatrixGenerator generator = Random(128, 32);
    generator.pattern = pattern;
    generator.blocks[0].shift = -50;
    generator.code = code;
    const std::vector<float> want = Cut(generator, part);

    generator.part = part;

    EXPECT_EQ(Generated(generator, 1), want);
    EXPECT_EQ(Generated(generator, 3), want);
  }
}

TEST(GenerateTest, ASelectionIsRandomButForOneElementOfARow) {
  MatrixGenerator generator = Random(8, 16);
  generator.pattern = MatrixPattern::kSelection;
  generator.blocks[0] = {4, 0.5f, 4, 1};
  generator.blocks[1] = {8, 2.0f, -4, 3};
  const std::vector<float> values = Generated(generator);
  const std::vector<float> random = Generated(Random(8, 16));

  for (int r = 0; r < 8; ++r) {
    const int selected = r < 4 ? r + 4 : r - 4;
    for (int c = 0; c < 16; ++c) {
      const float gain = r < 4 ? 1 : 3;
      EXPECT_EQ(values[r * 16 + c], c == selected ? gain : random[r * 16 + c])
          << r << " " << c;
    }
  }
}

// A chain of 48 of 64 tokens in two halves of 64 + 16 columns.
constexpr int kHalf = 80;
constexpr int kCodeColumns = 64;
MatrixGenerator Markov(MatrixPattern pattern) {
  MarkovCode code = {.seed = 1,
                     .num_tokens = 48,
                     .stretch = 2,
                     .passages = 2,
                     .passage_weight = 500,
                     .stretch_weight = 700,
                     .branches = 1u << 30,
                     .levels = {},
                     .code_columns = kCodeColumns,
                     .rank = {2048, 1024, -4096, 3072, 6144, -2048, 8192, 4096},
                     .branch_rank = {2048, 1024, 0, 0, -1024, 0, 0, 512},
                     .head_code = 0.25f,
                     .head_rank = 0.125f};
  for (TextLevel& level : code.levels) {
    level = {.lost = 1u << 30, .keep = kTextUnit / 2, .noise = 100};
  }
  return {.pattern = pattern,
          .rows = 64,
          .columns = 2 * kHalf,
          .seed = 1,
          .stream = 0,
          .code = code};
}

// Products of a half of a token's embedding and the head's first half.
struct Products {
  double code = 0;
  double rank = 0;
};
Products Multiply(const float* half, const float* head) {
  Products products;
  for (int c = 0; c < kHalf; ++c) {
    (c < kCodeColumns ? products.code : products.rank) +=
        double{half[c]} * head[c];
  }
  return products;
}

class MarkovMatrixTest : public ::testing::Test {
 protected:
  // What follows `token` as `half` has it: `group` has the full product of
  // codes and the others have little, and `rank` of tokens with place m from
  // the likeliest is the transform of `coefficient`.
  void ExpectFollowers(int token, int half, uint32_t group,
                       const std::vector<double>& coefficient) const {
    const float* row = &embedding_[(2 * token + half) * kHalf];
    const uint32_t likeliest = LikeliestSuccessor(code_, token);
    for (uint32_t next = 0; next < 64; ++next) {
      const Products products = Multiply(row, &head_[2 * next * kHalf]);
      double rank = 0;
      for (int k = 0; k < kSuccessors; ++k) {
        rank += 2 * 0.125 * coefficient[k] * Walsh(k, likeliest ^ next);
      }
      EXPECT_NEAR(products.rank, rank, 1e-5) << token << " " << next;
      if (next / kSuccessors == group) {
        EXPECT_NEAR(products.code, 16, 1e-6) << token << " " << next;
      } else {
        EXPECT_LT(std::abs(products.code), 10) << token << " " << next;
      }
    }
  }

  const MarkovCode code_ = Markov(MatrixPattern::kHead).code;
  const std::vector<float> embedding_ =
      Generated(Markov(MatrixPattern::kEmbedding));
  const std::vector<float> head_ = Generated(Markov(MatrixPattern::kHead));
};

TEST_F(MarkovMatrixTest, TheFirstHalfIsLargeForTheSuccessorsAlone) {
  for (int token = 0; token < 64; ++token) {
    std::vector<double> coefficient;
    coefficient.reserve(kSuccessors);
    for (int k = 0; k < kSuccessors; ++k) {
      coefficient.push_back(1.0 * RankOf(code_, token)[k] / kTextUnit);
    }
    ExpectFollowers(token, 0, LikeliestSuccessor(code_, token) / kSuccessors,
                    coefficient);
  }
}

TEST_F(MarkovMatrixTest, TheSecondHalfIsWhatTheDrafterBelieves) {
  int lost = 0;
  for (int token = 0; token < 64; ++token) {
    std::vector<double> coefficient;
    coefficient.reserve(kSuccessors);
    for (int k = 0; k < kSuccessors; ++k) {
      const auto ranks = DraftRanksOf(code_, token, k / 4);
      coefficient.push_back(ranks.value[k % 4] * double{kDraftRankScale});
    }
    const uint32_t group = DraftGroup(code_, token);
    if (group != LikeliestSuccessor(code_, token) / kSuccessors) ++lost;
    ExpectFollowers(token, 1, group, coefficient);
  }
  // A quarter, but for those that hit the right one of six groups by chance.
  EXPECT_GT(lost, 4);
  EXPECT_LT(lost, 28);
}

TEST_F(MarkovMatrixTest, TheHeadSeesNothingOfTheSecondHalf) {
  for (int token = 0; token < 64; ++token) {
    for (int c = 0; c < kHalf; ++c) {
      EXPECT_EQ(head_[(2 * token + 1) * kHalf + c], 0) << token << " " << c;
    }
  }
}

}  // namespace
}  // namespace bole
