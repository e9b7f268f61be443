// Answers with reasoning and tool calls, as published templates write them
// (tests/golden/tools), parsed back to the messages that they were made from,
// however the text is cut.

#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "common/chat/output/output_format.h"
#include "common/chat/output/output_parser.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/common/chat/template_cases.h"

namespace bole {
namespace {

using testing::Json;

struct Parsed {
  std::string content;
  std::string reasoning;
  std::vector<OutputCall> calls;

  void Add(OutputDelta delta) {
    content += delta.content;
    reasoning += delta.reasoning;
    calls.insert(calls.end(), delta.calls.begin(), delta.calls.end());
  }
};

Parsed Parse(const std::shared_ptr<const OutputFormat>& format,
             const std::vector<std::string_view>& pieces) {
  OutputParser parser(format);
  Parsed parsed;
  for (const std::string_view piece : pieces) parsed.Add(parser.Push(piece));
  parsed.Add(parser.Finish());
  return parsed;
}

void ExpectMessage(const Json& message, const Parsed& parsed) {
  ASSERT_EQ(parsed.content, message["content"].get<std::string>());
  ASSERT_EQ(parsed.reasoning, message["reasoning_content"].get<std::string>());
  ASSERT_EQ(parsed.calls.size(), message["tool_calls"].size());
  for (size_t i = 0; i < parsed.calls.size(); ++i) {
    const Json& function = message["tool_calls"][i]["function"];
    ASSERT_EQ(parsed.calls[i].name, function["name"].get<std::string>());
    // Members in their order, as they are.
    ASSERT_EQ(Json::parse(parsed.calls[i].arguments_json).dump(),
              function["arguments"].dump());
  }
}

struct Form {
  const char* name;
  CallForm form;
  const char* turns;
};

class GoldenTurnsTest : public ::testing::TestWithParam<Form> {};

TEST_P(GoldenTurnsTest, EveryCutGivesTheMessage) {
  const Json conversations = Json::parse(
      testing::FileText("tests/golden/tools/conversations.json").value_or(""));
  const Json turns =
      Json::parse(testing::FileText(GetParam().turns).value_or(""));
  ASSERT_GE(turns.size(), 30u);
  ASSERT_EQ(turns.size(), conversations.size());
  for (size_t i = 0; i < turns.size(); ++i) {
    SCOPED_TRACE(turns[i]["name"].get<std::string>());
    const Json& message = conversations[i]["answer"];
    const std::string prompt = turns[i]["prompt"].get<std::string>();
    const std::string text = turns[i]["turn"].get<std::string>();
    OutputFormat format = {
        .start = StartOf({.reasoning = true, .calls = {}}, prompt),
        .calls = GetParam().form,
        .tools = ToolSet(conversations[i]["tools"])};
    ASSERT_EQ(format.start, OutputFormat::Start::kReasoning);
    const auto shared = std::make_shared<const OutputFormat>(format);
    const std::string_view view = text;
    for (size_t cut = 0; cut <= text.size(); ++cut) {
      ExpectMessage(message,
                    Parse(shared, {view.substr(0, cut), view.substr(cut)}));
      if (HasFatalFailure()) FAIL() << "cut at " << cut;
    }
    std::vector<std::string_view> bytes;
    for (size_t at = 0; at < text.size(); ++at) {
      bytes.push_back(view.substr(at, 1));
    }
    ExpectMessage(message, Parse(shared, bytes));

    // The model may open its reasoning itself.
    format.start = OutputFormat::Start::kMayReason;
    ExpectMessage(message, Parse(std::make_shared<const OutputFormat>(format),
                                 {"<think>\n", text}));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Forms, GoldenTurnsTest,
    ::testing::Values(Form{.name = "xml",
                           .form = CallForm::kXml,
                           .turns = "tests/golden/tools/xml_turns.json"},
                      Form{.name = "json",
                           .form = CallForm::kJson,
                           .turns = "tests/golden/tools/json_turns.json"}),
    [](const auto& info) { return std::string(info.param.name); });

// The frozen turns are what our interpreter makes of the templates today; that
// it agrees with jinja2 about them is template_oracle_test's to say.
class TemplateTurnsTest : public ::testing::TestWithParam<
                              std::tuple<const char*, const char*, CallForm>> {
};

TEST_P(TemplateTurnsTest, TheTemplateWritesTheFrozenTurns) {
  const auto& [name, path, form] = GetParam();
  const auto source = testing::CheckpointTemplate(name);
  if (!source) GTEST_SKIP() << "needs tokenizer/templates in BOLE_DATA_DIR";
  const auto chat = ChatTemplate::Parse(*source);
  ASSERT_TRUE(chat.ok()) << chat.status();
  EXPECT_EQ(chat->form().calls, form);
  EXPECT_TRUE(chat->form().reasoning);
  const Json conversations = Json::parse(
      testing::FileText("tests/golden/tools/conversations.json").value_or(""));
  const Json turns = Json::parse(testing::FileText(path).value_or(""));
  for (size_t i = 0; i < turns.size(); ++i) {
    SCOPED_TRACE(turns[i]["name"].get<std::string>());
    Json messages = conversations[i]["messages"];
    messages.push_back(conversations[i]["answer"]);
    const auto text = chat->Render({{"messages", messages},
                                    {"tools", conversations[i]["tools"]},
                                    {"add_generation_prompt", false},
                                    {"enable_thinking", true}});
    ASSERT_TRUE(text.ok()) << text.status();
    EXPECT_TRUE(text->ends_with(turns[i]["prompt"].get<std::string>() +
                                turns[i]["turn"].get<std::string>() +
                                "<|im_end|>\n"));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Qwen, TemplateTurnsTest,
    ::testing::Values(std::tuple("qwen3.5.jinja",
                                 "tests/golden/tools/xml_turns.json",
                                 CallForm::kXml),
                      std::tuple("qwen3.jinja",
                                 "tests/golden/tools/json_turns.json",
                                 CallForm::kJson)));

}  // namespace
}  // namespace bole
