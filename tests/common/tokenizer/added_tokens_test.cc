#include "common/tokenizer/added_tokens.h"

#include <string>

#include "gtest/gtest.h"

namespace bole {
namespace {

using Match = AddedTokenMatcher::Match;

void ExpectMatch(const std::optional<Match>& match, size_t begin, size_t size,
                 int32_t id) {
  ASSERT_TRUE(match.has_value());
  EXPECT_EQ(match->begin, begin);
  EXPECT_EQ(match->size, size);
  EXPECT_EQ(match->id, id);
}

TEST(AddedTokenMatcherTest, TakesTheLeftmostThenTheLongest) {
  const AddedTokenMatcher matcher({{"<a>", 1}, {"<a>b", 2}, {"a>bc", 3}});

  ExpectMatch(matcher.FindFirst("x<a>bc", 0), 1, 4, 2);
  ExpectMatch(matcher.FindFirst("x<a>c", 0), 1, 3, 1);
  ExpectMatch(matcher.FindFirst("x<a>bc", 2), 2, 4, 3);
}

TEST(AddedTokenMatcherTest, ALongerTokenThatFailsGivesWayToAShorterOne) {
  const AddedTokenMatcher matcher({{"ab", 1}, {"abcdef", 2}, {"cd", 3}});

  ExpectMatch(matcher.FindFirst("abcde", 0), 0, 2, 1);
  ExpectMatch(matcher.FindFirst("abcde", 2), 2, 2, 3);
}

TEST(AddedTokenMatcherTest, FindsNothingWhereThereIsNothing) {
  EXPECT_FALSE(AddedTokenMatcher().FindFirst("text", 0).has_value());
  const AddedTokenMatcher matcher({{"<a>", 1}});
  EXPECT_FALSE(matcher.FindFirst("<a <b> a>", 0).has_value());
  EXPECT_FALSE(matcher.FindFirst("<a>", 1).has_value());
  EXPECT_FALSE(matcher.FindFirst("", 0).has_value());
}

TEST(AddedTokenMatcherTest, MatchesBytesThatAreNotAscii) {
  const AddedTokenMatcher matcher({{"\uFF5Cend\uFF5C", 7}});

  ExpectMatch(matcher.FindFirst("\u4E2D\uFF5Cend\uFF5C", 0), 3, 9, 7);
}

}  // namespace
}  // namespace bole
