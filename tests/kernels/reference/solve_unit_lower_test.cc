#include "kernels/reference/solve_unit_lower.h"

#include <algorithm>
#include <cstddef>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/random_tree.h"

namespace bole::reference {
namespace {

using ::bole::testing::UniformInt;

// G of zeros and ones with at most two in a row of a forest of depth 3, and an
// integer U: every step of either solver is exact.
struct IntegerSystem {
  std::vector<float> minus_g;
  std::vector<float> u;
  std::vector<float> right_side;
  int num_rows;
  int width;

  UnitLowerSystem System() {
    return {.num_rows = num_rows,
            .width = width,
            .minus_g = minus_g.data(),
            .g_row = static_cast<size_t>(num_rows),
            .u = right_side.data()};
  }
};

constexpr int kMaxDepth = 3;

IntegerSystem MakeSystem(std::mt19937& rng, int num_rows) {
  IntegerSystem s = {.minus_g = std::vector<float>(num_rows * num_rows),
                     .u = {},
                     .right_side = {},
                     .num_rows = num_rows,
                     .width = UniformInt(rng, 1, 40)};
  std::vector<int> depth(num_rows);
  for (int i = 0; i < num_rows; ++i) {
    for (int tries = 0; i > 0 && tries < 2; ++tries) {
      const int j = UniformInt(rng, 0, i - 1);
      if (depth[j] == kMaxDepth) continue;
      s.minus_g[i * num_rows + j] = -1;
      depth[i] = std::max(depth[i], depth[j] + 1);
    }
  }
  for (int i = 0; i < num_rows * s.width; ++i) {
    s.u.push_back(static_cast<float>(UniformInt(rng, -9, 9)));
  }
  s.right_side = s.u;
  for (int i = 0; i < num_rows; ++i) {
    for (int j = 0; j < i; ++j) {
      for (int c = 0; c < s.width; ++c) {
        s.right_side[i * s.width + c] -=
            s.minus_g[i * num_rows + j] * s.u[j * s.width + c];
      }
    }
  }
  return s;
}

TEST(SolveUnitLowerTest, BothSolversAreExactOnIntegers) {
  std::mt19937 rng(1);
  std::vector<float> scratch;
  for (int num_rows = 1; num_rows <= 100; ++num_rows) {
    SCOPED_TRACE(num_rows);
    IntegerSystem by_blocks = MakeSystem(rng, num_rows);
    IntegerSystem by_neumann = by_blocks;

    SolveByBlocks(by_blocks.System(), scratch);
    SolveByNeumann(by_neumann.System(), kMaxDepth, scratch);

    EXPECT_EQ(by_blocks.right_side, by_blocks.u);
    EXPECT_EQ(by_neumann.right_side, by_neumann.u);
  }
}

TEST(SolveUnitLowerTest, TheSeriesNeedsTheFullDepth) {
  std::vector<float> scratch;
  IntegerSystem chain = {.minus_g = {0, 0, 0, -1, 0, 0, 0, -1, 0},
                         .u = {},
                         .right_side = {1, 1, 1},
                         .num_rows = 3,
                         .width = 1};
  IntegerSystem cut = chain;

  SolveByNeumann(chain.System(), /*max_depth=*/2, scratch);
  SolveByNeumann(cut.System(), /*max_depth=*/1, scratch);

  EXPECT_EQ(chain.right_side, std::vector<float>({1, 0, 1}));
  EXPECT_EQ(cut.right_side, std::vector<float>({1, 0, 0}));
}

}  // namespace
}  // namespace bole::reference
