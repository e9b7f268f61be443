#include "worker_service/eval/count_text.h"

#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "tests/common/tokenizer/tiny_tokenizer.h"

namespace bole {
namespace {

using ::bole::testing::MakeTinyTokenizer;

using Ids = std::vector<int32_t>;

TEST(ChooseTokensTest, TakesTheMostFrequentAndTheRequired) {
  const std::vector<int64_t> count = {5, 0, 7, 7, 1, 0, 2};

  EXPECT_EQ(ChooseTokens(count, {}, 2).tokens, (Ids{2, 3}));
  EXPECT_EQ(ChooseTokens(count, {5}, 3).tokens, (Ids{2, 3, 5}));
  EXPECT_EQ(ChooseTokens(count, {}, 6).tokens, (Ids{0, 1, 2, 3, 4, 6}));
  EXPECT_EQ(ChooseTokens(count, {1, 5}, 1).tokens, (Ids{1, 5}));
  EXPECT_EQ(ChooseTokens(count, {}, 100).tokens.size(), count.size());
}

TEST(ChooseTokensTest, CoverageIsTheShareOfTheText) {
  EXPECT_DOUBLE_EQ(ChooseTokens({6, 3, 1}, {}, 2).coverage, 0.9);
  EXPECT_DOUBLE_EQ(ChooseTokens({6, 3, 1}, {2}, 2).coverage, 0.7);
  EXPECT_DOUBLE_EQ(ChooseTokens({0, 0}, {}, 2).coverage, 0);
}

// A text of many pieces, with lines and without.
TEST(CountTextTest, CountsWhatTheTokenizerMakesOfTheText) {
  const std::unique_ptr<Tokenizer> tokenizer = MakeTinyTokenizer();
  for (const char* part : {"the cat\n", "x y "}) {
    std::string text;
    while (text.size() < 1'000'000) text += part;
    std::vector<int64_t> count(tokenizer->num_ids());
    size_t bytes = 0;
    int pieces = 0;

    const absl::Status counted =
        CountText(*tokenizer, text, count, [&](size_t length) {
          bytes += length;
          ++pieces;
        });

    ASSERT_TRUE(counted.ok()) << counted;
    EXPECT_EQ(bytes, text.size());
    EXPECT_GE(pieces, 4);
    std::vector<int64_t> want(tokenizer->num_ids());
    const absl::StatusOr<Ids> ids = tokenizer->Encode(part);
    ASSERT_TRUE(ids.ok()) << ids.status();
    const int64_t times =
        static_cast<int64_t>(text.size() / std::string(part).size());
    for (const int32_t id : *ids) want[id] += times;
    EXPECT_EQ(count, want) << part;
  }
}

}  // namespace
}  // namespace bole
