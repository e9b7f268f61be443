#include "common/philox.h"

#include <algorithm>
#include <iterator>

#include "gtest/gtest.h"

namespace bole {
namespace {

constexpr bool Equal(const PhiloxCounter& a, const PhiloxCounter& b) {
  return std::equal(std::begin(a.word), std::end(a.word), std::begin(b.word));
}

// The known answers that the authors publish with Random123.
static_assert(Equal(Philox({{0, 0, 0, 0}}, {{0, 0}}),
                    {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}}));
static_assert(Equal(Philox({{~0u, ~0u, ~0u, ~0u}}, {{~0u, ~0u}}),
                    {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}}));
static_assert(Equal(Philox({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}},
                           {{0xa4093822, 0x299f31d0}}),
                    {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}));

TEST(PhiloxTest, EveryInputBitChangesAboutHalfOfTheOutput) {
  const PhiloxCounter counter = {{1, 2, 3, 4}};
  const PhiloxKey key = {{5, 6}};
  const PhiloxCounter base = Philox(counter, key);
  for (int bit = 0; bit < 192; ++bit) {
    PhiloxCounter other_counter = counter;
    PhiloxKey other_key = key;
    uint32_t& word =
        bit < 128 ? other_counter.word[bit / 32] : other_key.word[bit / 32 - 4];
    word ^= uint32_t{1} << (bit % 32);

    const PhiloxCounter other = Philox(other_counter, other_key);

    int changed = 0;
    for (int i = 0; i < 4; ++i) {
      changed += __builtin_popcount(base.word[i] ^ other.word[i]);
    }
    // 64 of 128 fair bits change on average, with a standard deviation of 5.7;
    // the bounds are 5 of those away.
    EXPECT_GT(changed, 35) << "bit " << bit;
    EXPECT_LT(changed, 93) << "bit " << bit;
  }
}

}  // namespace
}  // namespace bole
