// The choice of a form. Runs without a GPU.
#include "kernels/cuda/ranks/reduce_form.h"

#include <cstddef>

#include "gtest/gtest.h"

namespace bole::cuda {
namespace {

// The least size, in whole KiB, for which two-shot is chosen.
size_t TwoShotFrom(int num_ranks) {
  size_t kib = 0;
  while (FasterReduceForm(num_ranks, kib * 1024) == ReduceForm::kOneShot) ++kib;
  return kib;
}

TEST(ReduceFormTest, TwoRanksHaveNothingToGain) {
  for (size_t bytes = 1; bytes < size_t{1} << 40; bytes *= 3) {
    EXPECT_EQ(FasterReduceForm(2, bytes), ReduceForm::kOneShot) << bytes;
  }
}

TEST(ReduceFormTest, MoreRanksGainFromAFixedSizeOn) {
  // Where a microsecond is what (n - 1) (n - 2) / n times the bytes take.
  EXPECT_EQ(TwoShotFrom(3), 528);
  EXPECT_EQ(TwoShotFrom(4), 235);
  EXPECT_EQ(TwoShotFrom(8), 67);
  for (int n = 3; n <= 8; ++n) {
    for (size_t kib = TwoShotFrom(n); kib < 8192; ++kib) {
      ASSERT_EQ(FasterReduceForm(n, kib * 1024), ReduceForm::kTwoShot)
          << n << " ranks, " << kib << " KiB";
    }
  }
}

// Graphs and tables may rely on it.
static_assert(FasterReduceForm(4, size_t{1} << 20) == ReduceForm::kTwoShot);

}  // namespace
}  // namespace bole::cuda
