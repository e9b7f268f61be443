#include "common/ids.h"

#include <concepts>
#include <type_traits>

#include "absl/container/flat_hash_map.h"
#include "common/strong_id.h"
#include "gtest/gtest.h"

namespace bole {
namespace {

template <typename A, typename B>
concept Comparable = requires(A a, B b) {
  a == b;
};

static_assert(!std::is_convertible_v<SlotId, PageId>);
static_assert(!std::is_constructible_v<PageId, SlotId>);
static_assert(!std::is_convertible_v<int, SlotId>);
static_assert(!std::is_default_constructible_v<SlotId>);
static_assert(Comparable<SlotId, SlotId>);
static_assert(!Comparable<SlotId, PageId>);
static_assert(sizeof(SlotId) == sizeof(int32_t));

TEST(IdsTest, OrdersByValue) {
  EXPECT_LT(PageId(2), PageId(10));
  EXPECT_EQ(PageId(7), PageId(7));
  EXPECT_NE(PageId(7), PageId(8));
}

TEST(IdsTest, IsAKeyOfAHashMap) {
  absl::flat_hash_map<SlotId, int> requests;

  requests[SlotId(3)] = 30;
  requests[SlotId(4)] = 40;

  EXPECT_EQ(requests.at(SlotId(3)), 30);
  EXPECT_EQ(requests.at(SlotId(4)), 40);
  EXPECT_FALSE(requests.contains(SlotId(5)));
}

}  // namespace
}  // namespace bole
