#include "common/chat/python_format.h"

#include <limits>
#include <string>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace bole::jinja {
namespace {

using Json = nlohmann::ordered_json;

// The value of a JSON text, written by `write`.
std::string Written(absl::StatusOr<std::string> (*write)(const Value&, Budget*),
                    const char* json) {
  Budget budget(1'000'000);
  const absl::StatusOr<Value> value = Value::FromJson(Json::parse(json));
  return value.ok() ? write(*value, &budget).value_or("failed") : "failed";
}

TEST(PythonFormatTest, StrSpellsScalarsAsPython) {
  EXPECT_EQ(Written(ToStr, "true"), "True");
  EXPECT_EQ(Written(ToStr, "null"), "None");
  EXPECT_EQ(Written(ToStr, "1"), "1");
  EXPECT_EQ(Written(ToStr, "1.0"), "1.0");
  EXPECT_EQ(Written(ToStr, "18446744073709551615"), "18446744073709551615");
  EXPECT_EQ(Written(ToStr, R"("it's")"), "it's");
  EXPECT_EQ(Written(ToStr, R"([1, "a", {"k": null}])"),
            "[1, 'a', {'k': None}]");
}

TEST(PythonFormatTest, JsonIsCompactOnlyInNothing) {
  EXPECT_EQ(
      Written(ToJson, R"({"z":[1,2.0,true,null],"a":{},"\u00e9":"</x>"})"),
      "{\"z\": [1, 2.0, true, null], \"a\": {}, \"\u00E9\": \"</x>\"}");
}

TEST(PythonFormatTest, JsonEscapesOnlyWhatItMust) {
  EXPECT_EQ(JsonOfString("a\"\\/\b\f\n\r\t\x01\x1F\x7F\u2028\u00E9"),
            "\"a\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\\u001f\x7F\u2028\u00E9\"");
}

TEST(PythonFormatTest, FloatsAreTheShortestThatReadBack) {
  EXPECT_EQ(ReprOfFloat(0.1), "0.1");
  EXPECT_EQ(ReprOfFloat(0.1 + 0.2), "0.30000000000000004");
  EXPECT_EQ(ReprOfFloat(-0.0), "-0.0");
  EXPECT_EQ(ReprOfFloat(100), "100.0");
  EXPECT_EQ(ReprOfFloat(1e15), "1000000000000000.0");
  EXPECT_EQ(ReprOfFloat(1e16), "1e+16");
  EXPECT_EQ(ReprOfFloat(1.5e-5), "1.5e-05");
  EXPECT_EQ(ReprOfFloat(0.0001), "0.0001");
  EXPECT_EQ(ReprOfFloat(1e100), "1e+100");
  EXPECT_EQ(ReprOfFloat(5e-324), "5e-324");
  EXPECT_EQ(ReprOfFloat(std::numeric_limits<double>::infinity()), "inf");
  EXPECT_EQ(ReprOfFloat(std::numeric_limits<double>::quiet_NaN()), "nan");
}

TEST(PythonFormatTest, ReprChoosesItsQuotes) {
  EXPECT_EQ(ReprOfString("a"), "'a'");
  EXPECT_EQ(ReprOfString("it's"), "\"it's\"");
  EXPECT_EQ(ReprOfString("say \"x\""), "'say \"x\"'");
  EXPECT_EQ(ReprOfString("both ' and \""), "'both \\' and \"'");
  EXPECT_EQ(ReprOfString("\n\x7F\u00A0\u200B\U000E0001\u00E9"),
            "'\\n\\x7f\\xa0\\u200b\\U000e0001\u00E9'");
}

TEST(PythonFormatTest, UndefinedIsNothingAsTextAndNoJson) {
  Budget budget(100);
  const Value undefined = Value::MakeUndefined("'x' is undefined");

  EXPECT_EQ(ToStr(undefined, &budget).value_or("failed"), "");
  EXPECT_TRUE(absl::IsInvalidArgument(ToJson(undefined, &budget).status()));
}

TEST(PythonFormatTest, WhatHasNoTextIsAnError) {
  Budget budget(100);
  Namespace space;

  EXPECT_TRUE(absl::IsUnimplemented(
      ToStr(Value(Value::Variant(&space)), &budget).status()));
}

}  // namespace
}  // namespace bole::jinja
