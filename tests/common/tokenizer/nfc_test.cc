#include "common/tokenizer/nfc.h"

#include <chrono>
#include <string>

#include "gtest/gtest.h"

namespace bole {
namespace {

TEST(NfcTest, ComposesAndOrders) {
  EXPECT_EQ(NormalizeNfc("plain"), "plain");
  EXPECT_EQ(NormalizeNfc("cafe\u0301"), "caf\u00E9");
  EXPECT_EQ(NormalizeNfc("\u212B"), "\u00C5");                // Angstrom sign.
  EXPECT_EQ(NormalizeNfc("\u1100\u1161\u11A8"), "\uAC01");    // Hangul.
  EXPECT_EQ(NormalizeNfc("q\u0307\u0323"), "q\u0323\u0307");  // By class.
  EXPECT_EQ(NormalizeNfc("\u1E0B\u0323"), "\u1E0D\u0307");
  EXPECT_EQ(NormalizeNfc("\u0958"), "\u0915\u093C");  // Composition excluded.
  EXPECT_EQ(NormalizeNfc("\uFF11"), "\uFF11");        // Compatibility only.
}

TEST(NfcTest, NoHangulIsLost) {
  EXPECT_EQ(NormalizeNfc("\uAC00\u11A8"), "\uAC01");
  EXPECT_EQ(NormalizeNfc("\uAC00\u11A7"), "\uAC00\u11A7");
  EXPECT_EQ(NormalizeNfc("\u11A7\u11A7\u1100\u1161\u11A7\u0301"),
            "\u11A7\u11A7\uAC00\u11A7\u0301");
}

TEST(NfcTest, MarksOfOneClassKeepTheirOrder) {
  EXPECT_EQ(NormalizeNfc("q\u0301\u0300\u0316"), "q\u0316\u0301\u0300");
}

TEST(NfcTest, AMillionUnsortedMarksTakeNoQuadraticTime) {
  std::string text = "a";
  for (int i = 0; i < 500'000; ++i) text += "\u0301\u0316";
  const auto start = std::chrono::steady_clock::now();

  const std::string normalized = NormalizeNfc(text);

  // The first mark composes with the letter, after those of a lower class.
  EXPECT_EQ(normalized.substr(0, 4), "\u00E1\u0316");
  // Quadratic would be an hour.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::minutes(1));
}

}  // namespace
}  // namespace bole
