#include "worker_service/model/json_fields.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace bole {
namespace {

using nlohmann::json;

TEST(JsonFieldsTest, ReadsWhatIsThere) {
  const json object = {{"i", -3},          {"n", 0.5},
                       {"whole", 7},       {"b", true},
                       {"s", "yarn"},      {"o", {{"x", 1}}},
                       {"ids", {4, 2, 4}}, {"nothing", nullptr}};
  JsonFields fields(object, "");

  EXPECT_EQ(fields.Int("i", {-5, 5}), -3);
  EXPECT_EQ(fields.Number("n", {0, 1}), 0.5);
  EXPECT_EQ(fields.Number("whole", {0, 10}), 7);
  EXPECT_TRUE(fields.Bool("b", false));
  EXPECT_EQ(fields.OneOf("s", {"default", "yarn"}), "yarn");
  EXPECT_EQ(fields.Object("o"), &object["o"]);
  EXPECT_EQ(fields.IntOrInts("ids", {0, 9}), (std::vector<int>{4, 2, 4}));
  EXPECT_EQ(fields.IntOrInts("i", {-9, 9}), (std::vector<int>{-3}));
  EXPECT_TRUE(fields.Has("i"));
  EXPECT_FALSE(fields.Has("nothing"));
  EXPECT_TRUE(fields.status().ok()) << fields.status();
}

TEST(JsonFieldsTest, NullAndAbsentTakeTheFallback) {
  const json object = {{"null", nullptr}};
  JsonFields fields(object, "");

  for (const char* key : {"null", "absent"}) {
    EXPECT_EQ(fields.Int(key, {1, 9}, 4), 4);
    EXPECT_EQ(fields.Number(key, {1, 9}, 4.5), 4.5);
    EXPECT_TRUE(fields.Bool(key, true));
    EXPECT_EQ(fields.OneOf(key, {"a"}), "");
    EXPECT_TRUE(fields.EachOneOf(key, {"a"}).empty());
    EXPECT_TRUE(fields.IntOrInts(key, {1, 9}).empty());
    EXPECT_EQ(fields.Object(key), nullptr);
    fields.OnlyBool(key, true);
    fields.OnlyAbsent(key, "is not supported");
  }
  EXPECT_TRUE(fields.status().ok()) << fields.status();
}

TEST(JsonFieldsTest, AMissingFieldSaysWhatIsExpected) {
  const json object = json::object();
  JsonFields fields(object, "text_config");

  EXPECT_EQ(fields.Int("hidden_size", {1, 9}), 1);

  EXPECT_EQ(fields.status(),
            absl::InvalidArgumentError("text_config.hidden_size: missing, "
                                       "expected an integer in [1, 9]"));
}

// The message of one read of a member `key` with the value.
template <typename Read>
std::string MessageOf(const json& value, Read read) {
  const json object = {{"key", value}};
  JsonFields fields(object, "");
  read(fields);
  EXPECT_EQ(fields.status().code(), absl::StatusCode::kInvalidArgument)
      << value;
  return std::string(fields.status().message());
}

TEST(JsonFieldsTest, AnIntegerIsAnIntegerInItsRange) {
  const auto read = [](JsonFields& fields) {
    EXPECT_EQ(fields.Int("key", {1, 9}, 4), 1);
  };

  EXPECT_EQ(MessageOf(0, read), "key: 0, expected an integer in [1, 9]");
  EXPECT_EQ(MessageOf(10, read), "key: 10, expected an integer in [1, 9]");
  EXPECT_EQ(MessageOf(4.0, read), "key: 4.0, expected an integer in [1, 9]");
  EXPECT_EQ(MessageOf("4", read), "key: \"4\", expected an integer in [1, 9]");
  EXPECT_EQ(MessageOf(true, read), "key: true, expected an integer in [1, 9]");
  // 2^32 + 4, and what wraps to a small number as int64.
  EXPECT_EQ(MessageOf(4294967300, read),
            "key: 4294967300, expected an integer in [1, 9]");
  EXPECT_EQ(MessageOf(18446744073709551613u, read),
            "key: 18446744073709551613, expected an integer in [1, 9]");
  EXPECT_EQ(MessageOf(INT64_MIN, read),
            "key: -9223372036854775808, expected an integer in [1, 9]");
}

TEST(JsonFieldsTest, ANumberIsInItsRange) {
  const auto read = [](JsonFields& fields) {
    EXPECT_EQ(fields.Number("key", {0, 1}, 0.5), 0.5);
  };

  EXPECT_EQ(MessageOf(1.5, read), "key: 1.5, expected a number in [0, 1]");
  EXPECT_EQ(MessageOf("1", read), "key: \"1\", expected a number in [0, 1]");
}

TEST(JsonFieldsTest, OtherTypesAreErrors) {
  EXPECT_EQ(MessageOf(1, [](JsonFields& f) { f.Bool("key", true); }),
            "key: 1, expected true or false");
  EXPECT_EQ(MessageOf("gelu", [](JsonFields& f) { f.OneOf("key", {"silu"}); }),
            "key: \"gelu\", expected \"silu\"");
  EXPECT_EQ(MessageOf({"a", 2},
                      [](JsonFields& f) {
                        f.EachOneOf("key", {"a", "b"});
                      }),
            "key: 2, expected \"a\" or \"b\"");
  EXPECT_EQ(MessageOf("a", [](JsonFields& f) { f.EachOneOf("key", {"a"}); }),
            "key: \"a\", expected a list of \"a\"");
  EXPECT_EQ(MessageOf({1, -2},
                      [](JsonFields& f) {
                        f.IntOrInts("key", {0, 5});
                      }),
            "key: -2, expected an integer in [0, 5]");
  EXPECT_EQ(MessageOf({1, 2}, [](JsonFields& f) { f.Object("key"); }),
            "key: a list or object of 2, expected an object");
  EXPECT_EQ(MessageOf(true, [](JsonFields& f) { f.OnlyBool("key", false); }),
            "key: true, expected false");
  EXPECT_EQ(MessageOf(1, [](JsonFields& f) { f.OnlyAbsent("key", "is odd"); }),
            "key: is odd");
}

TEST(JsonFieldsTest, ALongValueIsCut) {
  const std::string message = MessageOf(
      std::string(5000, 'a'), [](JsonFields& f) { f.OneOf("key", {"b"}); });

  EXPECT_LT(message.size(), 120u);
}

TEST(JsonFieldsTest, TheFirstErrorStays) {
  const json object = {{"a", 1}, {"b", 2}};
  JsonFields fields(object, "");

  fields.Fail("a", "first");
  fields.Fail("b", "second");

  EXPECT_EQ(fields.status(), absl::InvalidArgumentError("a: first"));
}

}  // namespace
}  // namespace bole
