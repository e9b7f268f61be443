#include "clients/cli/json_output.h"

#include <gtest/gtest.h>

#include "nlohmann/json.hpp"
#include "proto/bole.pb.h"

namespace bole {
namespace {

TEST(ToJsonTest, UsesTheNamesOfTheProtoFileAndShowsZeros) {
  v1::GenerateResponse response;
  response.mutable_complete()->mutable_speculation()->set_rounds(3);

  const nlohmann::json json = nlohmann::json::parse(ToJson(response));

  EXPECT_EQ(json["complete"]["speculation"]["rounds"], 3);
  EXPECT_EQ(json["complete"]["speculation"]["accepted_drafts"], 0);
  EXPECT_EQ(json["complete"]["output_ids"], nlohmann::json::array());
}

TEST(ToJsonTest, AnAbsentOptionalFieldIsAbsent) {
  v1::SamplingParams params;
  params.set_top_p(0);

  const nlohmann::json json = nlohmann::json::parse(ToJson(params));

  EXPECT_TRUE(json.contains("top_p"));
  EXPECT_FALSE(json.contains("temperature"));
}

TEST(ToJsonTest, ASeedOf64BitsIsExact) {
  v1::GenerateComplete complete;
  complete.set_seed(18446744073709551615u);

  EXPECT_EQ(nlohmann::json::parse(ToJson(complete))["seed"],
            "18446744073709551615");
}

TEST(ToJsonTest, AnyTextIsOneLine) {
  v1::DetokenizeResponse response;
  response.set_text("a\n\"\033");

  EXPECT_EQ(ToJson(response), "{\"text\":\"a\\n\\\"\\u001b\"}");
}

TEST(JsonStringTest, BytesThatAreNoCharacterAreReplaced) {
  EXPECT_EQ(JsonString("a\xFF"), "\"a\xEF\xBF\xBD\"");
}

}  // namespace
}  // namespace bole
