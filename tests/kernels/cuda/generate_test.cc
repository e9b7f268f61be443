// Matrices that a GPU computes, element for element those of the reference.
#include "kernels/generate.h"

#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/backend.h"
#include "tests/kernels/cuda/cuda_test.h"

namespace bole::testing {
namespace {

class CudaGenerateTest : public CudaTest {
 protected:
  // All rows of the matrix, taken out as embeddings.
  std::vector<float> Rows(Backend& backend, const MatrixGenerator& generator) {
    auto matrix = backend.GenerateMatrix(generator);
    EXPECT_TRUE(matrix.ok()) << matrix.status();
    std::vector<int32_t> tokens(generator.rows);
    std::iota(tokens.begin(), tokens.end(), 0);
    const int32_t count = generator.rows;
    const size_t size = static_cast<size_t>(generator.rows) * generator.columns;
    auto device_tokens = *backend.Allocate(tokens.size() * 4, "tokens");
    auto device_count = *backend.Allocate(4, "count");
    auto out = *backend.Allocate(size * 4, "rows");
    EXPECT_TRUE(
        backend.Upload(device_tokens.get(), tokens.data(), tokens.size() * 4)
            .ok());
    EXPECT_TRUE(backend.Upload(device_count.get(), &count, 4).ok());
    EXPECT_TRUE(
        backend
            .Embed({.rows = {static_cast<int32_t*>(device_count.get()), count},
                    .token = static_cast<int32_t*>(device_tokens.get()),
                    .table = *matrix,
                    .out = static_cast<Activation*>(out.get())})
            .ok());
    std::vector<float> rows(size);
    const absl::Status done =
        backend.DownloadActivations(rows, static_cast<Activation*>(out.get()));
    EXPECT_TRUE(done.ok()) << done;
    return rows;
  }

  // Half the bits of a bfloat16's last place, to the nearest, ties to even.
  float Stored(float x) const {
    if (is_float()) return x;
    uint32_t bits;
    __builtin_memcpy(&bits, &x, sizeof(bits));
    bits = (bits + 0x7fffu + (bits >> 16 & 1)) & 0xffff0000u;
    __builtin_memcpy(&x, &bits, sizeof(bits));
    return x;
  }

  void ExpectEqual(const MatrixGenerator& generator) {
    const std::vector<float> got = Rows(*cuda_, generator);
    const std::vector<float> want = Rows(reference_, generator);
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_EQ(got[i], Stored(want[i])) << "element " << i;
    }
  }
};
BOLE_FOR_EACH_ELEMENT(CudaGenerateTest);

// 70,001 rows are more than a grid has blocks; 1,027 columns are no whole
// number of anything.
TEST_P(CudaGenerateTest, RandomMatricesAreThoseOfTheReference) {
  for (const auto& [rows, columns] :
       {std::pair(3, 1027), std::pair(70001, 5), std::pair(130, 2048)}) {
    ExpectEqual({.pattern = MatrixPattern::kRandom,
                 .rows = rows,
                 .columns = columns,
                 .seed = 0x123456789abcdefu,
                 .stream = 5,
                 .num_blocks = 2,
                 .blocks = {{rows / 3, 0.015f, 0, 0}, {rows, 1.7f, 0, 0}}});
  }
}

TEST_P(CudaGenerateTest, SelectionsAreThoseOfTheReference) {
  ExpectEqual({.pattern = MatrixPattern::kSelection,
               .rows = 256,
               .columns = 512,
               .seed = 1,
               .stream = 9,
               .num_blocks = 2,
               .blocks = {{100, 0.3f, 256, 1}, {256, 0.7f, -100, 2.5f}}});
}

TEST_P(CudaGenerateTest, ChainsAreThoseOfTheReference) {
  MarkovCode code = {.seed = 2,
                     .num_tokens = 1024,
                     .stretch = 16,
                     .passages = 3,
                     .passage_weight = 500,
                     .stretch_weight = 700,
                     .branches = 1u << 29,
                     .levels = {},
                     .code_columns = 72,
                     .rank = {4096, 1200, -800, 2900, 5700, -400, 8192, 3700},
                     .branch_rank = {4096, 100, -70, 290, 570, -40, 81, 370},
                     .head_code = 0.11f,
                     .head_rank = 0.013f};
  for (int i = 0; i < kTextLevels; ++i) {
    code.levels[i] = {.lost = static_cast<uint32_t>(i) << 28,
                      .keep = kTextUnit / (i + 1),
                      .noise = 10000 * i};
  }
  for (const MatrixPattern pattern :
       {MatrixPattern::kEmbedding, MatrixPattern::kHead}) {
    ExpectEqual({.pattern = pattern,
                 .rows = 4096,
                 .columns = 192,
                 .seed = 2,
                 .stream = 0,
                 .code = code});
  }
}

}  // namespace
}  // namespace bole::testing
