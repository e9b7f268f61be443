#include "kernels/reference/store_hidden.h"

#include <cstddef>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/row_batch.h"
#include "kernels/tensor.h"

namespace bole::reference {
namespace {

constexpr int kWidth = 2;
constexpr int kRing = 4;
constexpr float kUntouched = -7777;

// Vectors of the rows are 10 r, 10 r + 1.
struct Hidden {
  Hidden(int num_slots, int num_rows)
      : kept(static_cast<size_t>(num_slots) * kRing * kWidth, kUntouched) {
    for (int r = 0; r < num_rows; ++r) {
      rows.push_back(static_cast<float>(10 * r));
      rows.push_back(static_cast<float>(10 * r + 1));
    }
  }

  // Request b has a path of these rows.
  void Store(const std::vector<std::vector<int32_t>>& paths,
             const std::vector<int32_t>& slot,
             const std::vector<int32_t>& committed, int most = kRing) {
    std::vector<int32_t> first = {0};
    std::vector<int32_t> row;
    for (const std::vector<int32_t>& path : paths) {
      row.insert(row.end(), path.begin(), path.end());
      first.push_back(static_cast<int32_t>(row.size()));
    }
    RowBatch batch{};
    batch.max_requests = static_cast<int>(paths.size());
    batch.slot = slot.data();
    batch.committed = committed.data();
    StoreHidden({.batch = batch,
                 .path = {first.data(), row.data()},
                 .max_path_rows = static_cast<int>(row.size()),
                 .width = kWidth,
                 .ring = kRing,
                 .most = most,
                 .hidden = reinterpret_cast<const Activation*>(rows.data()),
                 .kept = reinterpret_cast<Activation*>(kept.data())});
  }

  // The first element of each vector that a slot keeps.
  std::vector<float> Ring(int slot) const {
    std::vector<float> firsts;
    for (int place = 0; place < kRing; ++place) {
      const size_t at = static_cast<size_t>(slot * kRing + place) * kWidth;
      firsts.push_back(kept[at]);
      EXPECT_EQ(kept[at + 1],
                kept[at] == kUntouched ? kUntouched : kept[at] + 1);
    }
    return firsts;
  }

  std::vector<float> rows;
  std::vector<float> kept;
};

TEST(StoreHiddenTest, APathGoesToItsPositionsInItsSlot) {
  Hidden hidden(/*num_slots=*/3, /*num_rows=*/6);

  hidden.Store({{0, 2}, {}, {3, 4, 5}}, {2, 1, 0}, {5, 8, 7});

  // Positions 5, 6 of slot 2; 7, 8, 9 of slot 0, round the end of its ring.
  EXPECT_EQ(hidden.Ring(2),
            (std::vector<float>{kUntouched, 0, 20, kUntouched}));
  EXPECT_EQ(hidden.Ring(1), std::vector<float>(kRing, kUntouched));
  EXPECT_EQ(hidden.Ring(0), (std::vector<float>{40, 50, kUntouched, 30}));
}

TEST(StoreHiddenTest, OfAPathLongerThanTheRingItsEndIsKept) {
  Hidden hidden(/*num_slots=*/1, /*num_rows=*/7);

  hidden.Store({{0, 1, 2, 3, 4, 5, 6}}, {0}, {2});

  // Positions 5 .. 8 are rows 3 .. 6.
  EXPECT_EQ(hidden.Ring(0), (std::vector<float>{60, 30, 40, 50}));
}

TEST(StoreHiddenTest, NoMoreOfAPathThanIsAskedForIsKept) {
  Hidden hidden(/*num_slots=*/2, /*num_rows=*/5);

  hidden.Store({{0, 1, 2}, {4}}, {1, 0}, {6, 2}, /*most=*/1);

  EXPECT_EQ(hidden.Ring(1),
            (std::vector<float>{20, kUntouched, kUntouched, kUntouched}));
  EXPECT_EQ(hidden.Ring(0),
            (std::vector<float>{kUntouched, kUntouched, 40, kUntouched}));
}

}  // namespace
}  // namespace bole::reference
