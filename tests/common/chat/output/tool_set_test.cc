#include "common/chat/output/tool_set.h"

#include <string>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace bole {
namespace {

// A value of a parameter whose schema is `schema`, as JSON.
std::string Value(const std::string& schema, const std::string& text) {
  const ToolSet tools(nlohmann::ordered_json::parse(
      R"([{"name": "f", "parameters": {"properties": {"p": )" + schema +
      "}}}]"));
  return ParameterJson(text, tools.KindsOf("f", "p"));
}

TEST(ToolSetTest, StringsStayText) {
  for (const char* text : {"1", "true", "null", "[1]", "\"x\"", " a\n"}) {
    EXPECT_EQ(Value(R"({"type": "string"})", text),
              nlohmann::json(text).dump());
    EXPECT_EQ(Value(R"({"enum": ["a", "b"]})", text),
              nlohmann::json(text).dump());
  }
}

TEST(ToolSetTest, OtherTypesAreJsonOrElseStrings) {
  EXPECT_EQ(Value(R"({"type": "integer"})", " 12 "), "12");
  EXPECT_EQ(Value(R"({"type": "integer"})", "123456789012345678901234567890"),
            "123456789012345678901234567890");
  EXPECT_EQ(Value(R"({"type": "number"})", "1.50"), "1.50");
  EXPECT_EQ(Value(R"({"type": "number"})", "1.5 m"), R"("1.5 m")");
  EXPECT_EQ(Value(R"({"type": "boolean"})", "True"), "true");
  EXPECT_EQ(Value(R"({"type": "boolean"})", "false"), "false");
  EXPECT_EQ(Value(R"({"type": "object"})", "{\"a\": 1}"), "{\"a\": 1}");
  EXPECT_EQ(Value(R"({"type": "object"})", "{\"a\": 1"), R"("{\"a\": 1")");
  EXPECT_EQ(Value(R"({"type": "array"})", "[1, 2]"), "[1, 2]");
  EXPECT_EQ(Value(R"({"type": "integer"})", "None"), "null");
}

TEST(ToolSetTest, AStringAmongOthersIsWhatTheOthersAreNot) {
  constexpr char kUnion[] = R"({"type": ["string", "integer"]})";
  EXPECT_EQ(Value(kUnion, "12"), "12");
  EXPECT_EQ(Value(kUnion, "true"), "\"true\"");
  EXPECT_EQ(
      Value(R"({"anyOf": [{"type": "string"}, {"type": "null"}]})", "None"),
      "null");
}

TEST(ToolSetTest, WhatIsNotKnownIsAStringUnlessItIsJson) {
  EXPECT_EQ(Value("{}", "x"), "\"x\"");
  EXPECT_EQ(Value("{}", "[1]"), "[1]");
  EXPECT_EQ(Value("{}", "\"x\""), R"("\"x\"")");
  const ToolSet none;
  EXPECT_TRUE(none.empty());
  EXPECT_EQ(ParameterJson("3", none.KindsOf("f", "p")), "3");
}

TEST(ToolSetTest, FunctionsMayBeWrappedAndNeedAName) {
  const ToolSet tools(nlohmann::ordered_json::parse(
      R"([{"type": "function", "function": {"name": "a"}}, {"name": "b"},
          {"description": "none"}, {"name": 3}])"));

  EXPECT_TRUE(tools.Has("a"));
  EXPECT_TRUE(tools.Has("b"));
  EXPECT_FALSE(tools.Has(""));
}

TEST(ToolSetTest, DepthIsBounded) {
  const auto nested = [](int depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_EQ(Value("{}", nested(kMaxCallDepth)), nested(kMaxCallDepth));
  EXPECT_EQ(Value("{}", nested(kMaxCallDepth + 1)),
            "\"" + nested(kMaxCallDepth + 1) + "\"");
}

}  // namespace
}  // namespace bole
