#include "common/json.h"

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace bole {
namespace {

std::string ErrorOf(std::string_view text, int max_depth = 8) {
  const absl::Status status = ParseJson(text, max_depth).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
  return std::string(status.message());
}

std::string Nested(int depth) {
  return std::string(depth, '[') + std::string(depth, ']');
}

TEST(JsonTest, BuildsWhatTheLibraryWouldBuild) {
  constexpr std::string_view kText =
      R"({"a": [1, -2, 3.5, [], {}], "b": {"c": null, "d": [true, "\u00e9"]},
          "e": 18446744073709551615, "f": -9223372036854775808, "": 1e300})";

  const absl::StatusOr<nlohmann::json> parsed = ParseJson(kText, 8);

  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(*parsed, nlohmann::json::parse(kText));
}

TEST(JsonTest, TheRootMayBeAScalar) {
  const absl::StatusOr<nlohmann::json> parsed = ParseJson(" 7 ", 0);

  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(*parsed, 7);
}

TEST(JsonTest, DepthCountsContainers) {
  EXPECT_TRUE(ParseJson(Nested(5), 5).ok());
  EXPECT_EQ(ErrorOf(Nested(6), 5), "JSON: nested deeper than 5");
  EXPECT_EQ(ErrorOf(R"({"a": {"b": 1}})", 1), "JSON: nested deeper than 1");
}

TEST(JsonTest, AMillionOpenBracketsAreAnErrorAndNotACrash) {
  EXPECT_EQ(ErrorOf(std::string(1'000'000, '[')), "JSON: nested deeper than 8");
  EXPECT_EQ(ErrorOf(Nested(1'000'000)), "JSON: nested deeper than 8");
}

TEST(JsonTest, AKeyTwiceInOneObjectIsAnError) {
  EXPECT_EQ(ErrorOf(R"({"a": 1, "b": 2, "a": 1})"),
            "JSON: key twice in one object: a");
  EXPECT_TRUE(ParseJson(R"({"a": {"a": 1}, "b": {"a": 1}})", 8).ok());
}

TEST(JsonTest, WhatIsNotJsonIsAnError) {
  for (const char* text :
       {"", " ", "{", "[1,]", "{\"a\" 1}", "NaN", "[Infinity]", "1e999", "01",
        "// x\n1", "1 2", "\"\xff\"", "'a'", "nul", "\"\\ud800\""}) {
    EXPECT_NE(ErrorOf(text), "");
  }
}

TEST(JsonTest, AnErrorNamesItsPlaceAndStaysReadable) {
  const std::string error = ErrorOf("{\n \"a\": \x01}");

  EXPECT_NE(error.find("line 2, column 7"), std::string::npos) << error;
  for (const char c : error) EXPECT_TRUE(c >= ' ' && c <= '~');
  EXPECT_LT(ErrorOf(std::string(100'000, 'a')).size(), 200u);
  EXPECT_LT(ErrorOf("[\"" + std::string(100'000, 'a')).size(), 200u);
}

}  // namespace
}  // namespace bole
