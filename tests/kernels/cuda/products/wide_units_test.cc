// The ring of products of 33 to 64 rows, as far as it shows without a GPU.
#include "gtest/gtest.h"
#include "kernels/cuda/products/wide_product.h"

namespace bole {
namespace {

// What keeps a warpgroup from reading a box that has not come.
TEST(WideUnitsTest, EachPlaceOfTheRingIsOneWarpgroups) {
  for (int groups = 1; groups <= cuda::kMaxWideGroups; ++groups) {
    const int units = cuda::WideUnits(groups);
    EXPECT_GE(units, 2 * groups);
    EXPECT_EQ(units % groups, 0) << groups << " groups";
  }
}

}  // namespace
}  // namespace bole
