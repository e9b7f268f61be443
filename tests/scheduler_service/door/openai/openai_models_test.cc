#include "scheduler_service/door/openai/openai_models.h"

#include <string>

#include "absl/status/status.h"
#include "common/field_error.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace bole {
namespace {

using Json = nlohmann::json;

v1::GetModelInfoResponse Model(const std::string& name, uint32_t max_context) {
  v1::GetModelInfoResponse model;
  model.set_model(name);
  model.set_max_context(max_context);
  return model;
}

void ExpectRefused(const absl::Status& status, absl::StatusCode code,
                   const std::string& param) {
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_EQ(FieldOf(status).value_or(""), param) << status;
}

TEST(OpenAiModelsTest, ListsModelsAndTellsTheirLimitsOnceTheyAreKnown) {
  v1::ListModelsResponse models;
  *models.add_models() = Model("a", 64);
  models.mutable_models(0)->set_vocab_size(300);
  *models.add_models() = Model("b", 0);
  const Json a = {{"id", "a"},           {"object", "model"},
                  {"created", 7},        {"owned_by", "bole"},
                  {"max_model_len", 64}, {"vocab_size", 300}};
  const Json b = {
      {"id", "b"}, {"object", "model"}, {"created", 7}, {"owned_by", "bole"}};

  EXPECT_EQ(Json::parse(ModelListBody(models, 7)),
            (Json{{"object", "list"}, {"data", {a, b}}}));
  EXPECT_EQ(Json::parse(ModelBody(models.models(0), 7)), a);
}

TEST(OpenAiModelsTest, ReadsWhatToTokenize) {
  const auto text = ReadTokenizeRequest(
      R"({"model":"m","prompt":"","parse_special_tokens":false,
          "add_special_tokens":true})");
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(text->model(), "m");
  EXPECT_TRUE(text->has_text());
  EXPECT_TRUE(text->has_parse_special_tokens());
  EXPECT_FALSE(text->parse_special_tokens());

  const auto chat = ReadTokenizeRequest(
      R"({"messages":[{"role":"user","content":"q"}],
          "tools":[{"type":"function","function":{"name":"f"}}]})");
  ASSERT_TRUE(chat.ok()) << chat.status();
  EXPECT_FALSE(chat->has_parse_special_tokens());
  ASSERT_EQ(chat->chat().messages_size(), 1);
  EXPECT_EQ(chat->chat().messages(0).content(), "q");
  EXPECT_EQ(chat->chat().tools_json_size(), 1);
}

TEST(OpenAiModelsTest, RefusesWhatCannotBeTokenized) {
  const struct {
    const char* body;
    absl::StatusCode code;
    const char* param;
  } kRows[] = {
      {"{}", absl::StatusCode::kInvalidArgument, "prompt"},
      {R"({"prompt":"q","messages":[]})", absl::StatusCode::kInvalidArgument,
       "prompt"},
      {R"({"prompt":["q"]})", absl::StatusCode::kInvalidArgument, "prompt"},
      {R"({"messages":[{"role":"user","content":1}]})",
       absl::StatusCode::kInvalidArgument, "messages[0].content"},
      {R"({"prompt":"q","return_token_strs":true})",
       absl::StatusCode::kUnimplemented, "return_token_strs"},
      // Tools belong to a chat.
      {R"({"prompt":"q","tools":[]})", absl::StatusCode::kUnimplemented,
       "tools"},
  };
  for (const auto& row : kRows) {
    SCOPED_TRACE(row.body);
    ExpectRefused(ReadTokenizeRequest(row.body).status(), row.code, row.param);
  }
}

TEST(OpenAiModelsTest, ReadsIdsToDetokenize) {
  const auto request = ReadDetokenizeRequest(
      R"({"model":"m","tokens":[0,2147483647],"skip_special_tokens":true})");

  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->model(), "m");
  EXPECT_TRUE(request->skip_special_tokens());
  ASSERT_EQ(request->ids_size(), 2);
  EXPECT_EQ(request->ids(1), 2147483647);
}

TEST(OpenAiModelsTest, RefusesWhatAreNoIds) {
  ExpectRefused(ReadDetokenizeRequest("{}").status(),
                absl::StatusCode::kInvalidArgument, "tokens");
  for (const char* id : {"-1", "2147483648", "1.0", "\"1\"", "null"}) {
    SCOPED_TRACE(id);
    ExpectRefused(
        ReadDetokenizeRequest(R"({"tokens":[5,)" + std::string(id) + "]}")
            .status(),
        absl::StatusCode::kInvalidArgument, "tokens[1]");
  }
}

TEST(OpenAiModelsTest, TellsTokensTextAndVersion) {
  v1::TokenizeResponse tokens;
  tokens.add_input_ids(4);
  tokens.add_input_ids(5);
  v1::DetokenizeResponse text;
  text.set_text("\303");  // Half a character.
  v1::GetServerInfoResponse info;
  info.set_version("1.2");

  EXPECT_EQ(Json::parse(TokenizeBody(tokens, 64)),
            Json::parse(R"({"count":2,"max_model_len":64,"tokens":[4,5]})"));
  EXPECT_EQ(Json::parse(TokenizeBody(tokens, 0)),
            Json::parse(R"({"count":2,"tokens":[4,5]})"));
  EXPECT_EQ(Json::parse(DetokenizeBody(text)),
            Json::parse(R"({"prompt":"\ufffd"})"));
  EXPECT_EQ(Json::parse(VersionBody(info)),
            Json::parse(R"({"version":"1.2"})"));
}

}  // namespace
}  // namespace bole
