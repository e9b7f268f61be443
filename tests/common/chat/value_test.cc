#include "common/chat/value.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/chat/budget.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace bole::jinja {
namespace {

using Json = nlohmann::ordered_json;

TEST(ValueTest, ObjectsKeepTheirOrder) {
  const auto value = Value::FromJson(Json::parse(R"({"z":1,"a":2,"m":3})"));
  ASSERT_TRUE(value.ok()) << value.status();
  const Dict* dict = value->AsDict();
  ASSERT_NE(dict, nullptr);

  std::string keys;
  for (const auto& item : dict->items) keys += item.first;

  EXPECT_EQ(keys, "zam");
  ASSERT_NE(dict->Find("a"), nullptr);
  EXPECT_EQ(dict->Find("a")->IntOr(0), 2);
  EXPECT_EQ(dict->Find("b"), nullptr);
}

TEST(ValueTest, OfEqualKeysTheLastCountsInTheFirstPlace) {
  const auto value = Value::MakeDict(
      {{"a", Value::Int(1)}, {"b", Value::Int(2)}, {"a", Value::Int(3)}});
  ASSERT_TRUE(value.ok()) << value.status();

  ASSERT_EQ(value->AsDict()->items.size(), 2u);
  EXPECT_EQ(value->AsDict()->items[0].first, "a");
  EXPECT_EQ(value->AsDict()->items[0].second.IntOr(0), 3);
}

TEST(ValueTest, IntegersKeepAllTheirBits) {
  EXPECT_EQ(Value::FromJson(INT64_MIN)->IntOr(0), INT64_MIN);
  EXPECT_EQ(Value::FromJson(uint64_t{INT64_MAX})->IntOr(0), INT64_MAX);
  EXPECT_TRUE(Value::FromJson(UINT64_MAX)->Is<BigUnsigned>());
}

TEST(ValueTest, DepthCountsContainers) {
  EXPECT_EQ(Value::Int(1).Depth(), 0);
  EXPECT_EQ(Value::FromJson(Json::parse(R"([1, {"a": [2]}])"))->Depth(), 3);
}

TEST(ValueTest, BinaryJsonIsAnError) {
  EXPECT_TRUE(
      absl::IsInvalidArgument(Value::FromJson(Json::binary({1, 2})).status()));
}

TEST(ValueTest, ListsHaveALimit) {
  EXPECT_TRUE(absl::IsResourceExhausted(
      Value::MakeList(std::vector<Value>(kMaxListItems + 1)).status()));
}

}  // namespace
}  // namespace bole::jinja
