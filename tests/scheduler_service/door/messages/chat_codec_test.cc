#include "scheduler_service/door/messages/chat_codec.h"

#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "common/chat/output/output_format.h"
#include "common/field_error.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/scheduler_service/served_model.h"

namespace bole {
namespace {

using Json = nlohmann::ordered_json;
using testing::TinyText;

v1::ChatInput OneMessage(const std::string& content = "hi") {
  v1::ChatInput chat;
  v1::ChatMessage& message = *chat.add_messages();
  message.set_role("user");
  message.set_content(content);
  return chat;
}

TEST(ChatCodecTest, AMessageHasRoleAndContentAndWhatWasSet) {
  v1::ChatInput chat = OneMessage();
  v1::ChatMessage& answer = *chat.add_messages();
  answer.set_role("assistant");
  answer.set_reasoning_content("hm");
  answer.set_name("n");
  v1::ChatMessage& tool = *chat.add_messages();
  tool.set_role("tool");
  tool.set_content("4");
  tool.set_tool_call_id("call-1");

  const auto context = DecodeChat(chat);

  ASSERT_TRUE(context.ok()) << context.status();
  EXPECT_EQ(*context, Json::parse(R"({"messages": [
                {"role": "user", "content": "hi"},
                {"role": "assistant", "content": "",
                 "reasoning_content": "hm", "name": "n"},
                {"role": "tool", "content": "4", "tool_call_id": "call-1"}],
              "add_generation_prompt": true})"));
}

TEST(ChatCodecTest, ArgumentsOfToolCallsBecomeObjectsInTheirOrder) {
  v1::ChatInput chat = OneMessage();
  v1::ToolCall& call = *chat.mutable_messages(0)->add_tool_calls();
  call.set_id("c");
  call.set_name("add");
  call.set_arguments_json(R"({"z": 1, "a": {"y": [1.5], "b": null}})");
  chat.mutable_messages(0)->add_tool_calls()->set_name("now");

  const auto context = DecodeChat(chat);

  ASSERT_TRUE(context.ok()) << context.status();
  const Json& calls = (*context)["messages"][0]["tool_calls"];
  EXPECT_EQ(calls[0]["function"]["arguments"].dump(),
            R"({"z":1,"a":{"y":[1.5],"b":null}})");
  EXPECT_EQ(calls[0]["function"]["name"], "add");
  EXPECT_EQ(calls[0]["type"], "function");
  EXPECT_EQ(calls[0]["id"], "c");
  EXPECT_EQ(calls[1]["function"]["arguments"], Json::object());
}

TEST(ChatCodecTest, ToolsKeepTheOrderOfTheirMembers) {
  v1::ChatInput chat = OneMessage();
  chat.add_tools_json(R"({"type": "function", "function": {"name": "f"}})");
  chat.add_tools_json(R"({"b": 1, "a": 2})");

  const auto context = DecodeChat(chat);

  ASSERT_TRUE(context.ok()) << context.status();
  EXPECT_EQ((*context)["tools"].dump(),
            R"([{"type":"function","function":{"name":"f"}},{"b":1,"a":2}])");
}

TEST(ChatCodecTest, ToolsThatMayNotBeCalledAreNotTold) {
  v1::ChatInput chat = OneMessage();
  chat.add_tools_json(R"({"name": "f"})");
  chat.set_tool_choice(v1::TOOL_CHOICE_NONE);

  const auto none = DecodeChat(chat);
  chat.set_tool_choice(v1::TOOL_CHOICE_AUTO);
  const auto automatic = DecodeChat(chat);

  ASSERT_TRUE(none.ok() && automatic.ok());
  EXPECT_FALSE(none->contains("tools"));
  EXPECT_TRUE(automatic->contains("tools"));
}

TEST(ChatCodecTest, WhatIsNotOfferedIsNamed) {
  v1::ChatInput chat = OneMessage();
  chat.set_tool_choice(v1::TOOL_CHOICE_REQUIRED);
  const absl::Status required = DecodeChat(chat).status();

  EXPECT_EQ(required.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(FieldOf(required), "chat.tool_choice");
}

// Writes calls as Qwen3.5's template does, and opens reasoning if told to.
constexpr char kCallingTemplate[] =
    "{% for m in messages %}{{ m.role }}:{{ m.content }}"
    "{% for c in m.tool_calls %}<tool_call>\n<function={{ c.function.name }}>\n"
    "{% for k, v in c.function.arguments | items %}<parameter={{ k }}>\n{{ v "
    "}}\n"
    "</parameter>\n{% endfor %}</function>\n</tool_call>{% endfor %};"
    "{% endfor %}{% if tools %}{{ tools | tojson }}{% endif %}"
    "{% if think %}<think>\n{% else %}<think>\n\n</think>\n\n{% endif %}";

TEST(ChatCodecTest, TheFormOfTheAnswerIsThatOfThePrompt) {
  const ModelText text = TinyText(kCallingTemplate);
  v1::ChatInput chat = OneMessage("<think>");
  chat.add_tools_json(R"({"name": "f"})");

  const auto unasked = RenderChat(chat, text);
  chat.set_parse_output(true);
  const auto closed = RenderChat(chat, text);
  chat.set_template_kwargs_json(R"({"think": true})");
  const auto open = RenderChat(chat, text);
  chat.set_tool_choice(v1::TOOL_CHOICE_NONE);
  const auto without_tools = RenderChat(chat, text);

  ASSERT_TRUE(unasked.ok() && closed.ok() && open.ok() && without_tools.ok());
  EXPECT_EQ(unasked->output, nullptr);
  EXPECT_EQ(closed->output->start, OutputFormat::Start::kAfterThought);
  EXPECT_EQ(closed->output->calls, CallForm::kXml);
  EXPECT_TRUE(closed->output->tools.Has("f"));
  EXPECT_EQ(open->output->start, OutputFormat::Start::kReasoning);
  EXPECT_EQ(without_tools->output->start, OutputFormat::Start::kReasoning);
  EXPECT_EQ(without_tools->output->calls, std::nullopt);
}

TEST(ChatCodecTest, ToolsOfATemplateWithoutAFormOfCallsAreNotParsed) {
  v1::ChatInput chat = OneMessage();
  chat.set_parse_output(true);
  const auto text_alone = RenderChat(chat, TinyText());
  chat.add_tools_json(R"({"name": "f"})");
  const absl::Status refused = RenderChat(chat, TinyText()).status();

  ASSERT_TRUE(text_alone.ok()) << text_alone.status();
  EXPECT_EQ(text_alone->output->start, OutputFormat::Start::kContent);
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(FieldOf(refused), "chat.parse_output");
}

TEST(ChatCodecTest, TemplateVariablesReachTheTemplate) {
  v1::ChatInput chat = OneMessage();
  chat.set_template_kwargs_json(R"({"extra": "!"})");
  chat.set_add_generation_prompt(false);

  const auto text = RenderChat(chat, TinyText());

  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(text->text, "user:hi;!");
}

TEST(ChatCodecTest, TheAssistantsTurnIsBegunUnlessRefused) {
  const auto text = RenderChat(OneMessage(), TinyText());

  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(text->text, "user:hi;assistant:");
}

TEST(ChatCodecTest, WithoutATemplateChatIsRefused) {
  ModelText text = TinyText();
  text.chat_template.reset();

  const auto rendered = RenderChat(OneMessage(), text);

  EXPECT_EQ(rendered.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(ChatCodecTest, WhatTheTemplateRefusesIsTheClientsError) {
  v1::ChatInput chat = OneMessage();
  chat.mutable_messages(0)->set_role("bad");

  const auto rendered = RenderChat(chat, TinyText());

  ASSERT_EQ(rendered.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(rendered.status().message().find("no such role"),
            absl::string_view::npos);
}

TEST(ChatCodecTest, ATemplateWithoutEndIsTheClientsErrorAndNotAFullQueue) {
  const ModelText text = TinyText(
      "{% for a in messages %}{% for b in messages %}{% for c in messages %}"
      "{% for d in messages %}{{ d.content }}{% endfor %}{% endfor %}"
      "{% endfor %}{% endfor %}");
  v1::ChatInput chat;
  for (int i = 0; i < 200; ++i) *chat.add_messages() = OneMessage().messages(0);

  const auto rendered = RenderChat(chat, text);

  EXPECT_EQ(rendered.status().code(), absl::StatusCode::kInvalidArgument);
}

std::string Nested(int depth) {
  return "{\"a\":" + std::string(depth, '[') + std::string(depth, ']') + "}";
}

std::string ManyMembers(int count) {
  std::string json = "{";
  for (int i = 0; i < count; ++i) {
    json += (i ? ",\"" : "\"") + std::to_string(i) + "\":0";
  }
  return json + "}";
}

struct Wrong {
  std::string name;
  std::function<void(v1::ChatInput&)> spoil;
  std::string field;
  std::string value;
};

class WrongChatTest : public ::testing::TestWithParam<Wrong> {};

TEST_P(WrongChatTest, IsRefusedWithFieldAndValue) {
  v1::ChatInput chat = OneMessage();
  GetParam().spoil(chat);

  const absl::Status status = DecodeChat(chat).status();

  ASSERT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  const std::string text(status.message());
  EXPECT_NE(text.find(GetParam().field), text.npos) << text;
  EXPECT_NE(text.find(GetParam().value), text.npos) << text;
  // The path of the field, or of what it is in.
  EXPECT_EQ(FieldOf(status).value_or("").substr(0, 4), "chat") << text;
}

using Chat = v1::ChatInput;

INSTANTIATE_TEST_SUITE_P(
    Fields, WrongChatTest,
    ::testing::Values(
        Wrong{"no_role", [](Chat& c) { c.mutable_messages(0)->clear_role(); },
              "chat.messages[0].role", "''"},
        Wrong{"long_role",
              [](Chat& c) {
                c.mutable_messages(0)->set_role(std::string(65, 'r'));
              },
              "chat.messages[0].role", "rrr"},
        Wrong{"long_name",
              [](Chat& c) {
                c.mutable_messages(0)->set_name(std::string(257, 'r'));
              },
              "chat.messages[0].name", "257"},
        Wrong{"long_tool_call_id",
              [](Chat& c) {
                c.mutable_messages(0)->set_tool_call_id(std::string(257, 'r'));
              },
              "chat.messages[0].tool_call_id", "257"},
        Wrong{"too_many_messages",
              [](Chat& c) {
                while (c.messages_size() < 1025) {
                  c.add_messages()->set_role("user");
                }
              },
              "chat.messages", "1025"},
        Wrong{"too_many_tools",
              [](Chat& c) {
                while (c.tools_json_size() < 129) c.add_tools_json("{}");
              },
              "chat.tools_json", "129"},
        Wrong{"too_many_tool_calls",
              [](Chat& c) {
                for (int i = 0; i < 129; ++i) {
                  c.mutable_messages(0)->add_tool_calls()->set_name("f");
                }
              },
              "chat.messages[0].tool_calls", "129"},
        Wrong{"call_without_a_name",
              [](Chat& c) { c.mutable_messages(0)->add_tool_calls(); },
              "chat.messages[0].tool_calls[0].name", "0"},
        Wrong{"call_with_a_long_id",
              [](Chat& c) {
                v1::ToolCall& call = *c.mutable_messages(0)->add_tool_calls();
                call.set_name("f");
                call.set_id(std::string(300, 'i'));
              },
              "chat.messages[0].tool_calls[0].id", "300"},
        Wrong{"arguments_not_json",
              [](Chat& c) {
                v1::ToolCall& call = *c.mutable_messages(0)->add_tool_calls();
                call.set_name("f");
                call.set_arguments_json("{oops}");
              },
              "chat.messages[0].tool_calls[0].arguments_json", "JSON"},
        Wrong{"arguments_not_an_object",
              [](Chat& c) {
                v1::ToolCall& call = *c.mutable_messages(0)->add_tool_calls();
                call.set_name("f");
                call.set_arguments_json("[1]");
              },
              "chat.messages[0].tool_calls[0].arguments_json", "'[1]'"},
        Wrong{"tool_not_json", [](Chat& c) { c.add_tools_json("{"); },
              "chat.tools_json[0]", "JSON"},
        Wrong{"tool_empty", [](Chat& c) { c.add_tools_json(""); },
              "chat.tools_json[0]", "JSON"},
        Wrong{"tool_with_a_key_twice",
              [](Chat& c) { c.add_tools_json(R"({"a": 1, "a": 2})"); },
              "chat.tools_json[0]", "twice"},
        Wrong{"tool_too_deep", [](Chat& c) { c.add_tools_json(Nested(32)); },
              "chat.tools_json[0]", "32"},
        Wrong{"tool_with_too_many_members",
              [](Chat& c) {
                c.add_tools_json("{\"x\":" + ManyMembers(257) + "}");
              },
              "chat.tools_json[0]", "257"},
        Wrong{"too_much_json",
              [](Chat& c) {
                c.add_tools_json(R"({"a": ")" + std::string(200'000, 'x') +
                                 "\"}");
                c.set_template_kwargs_json(R"({"b": ")" +
                                           std::string(62'144, 'x') + "\"}");
              },
              "JSON in chat", "26216"},
        Wrong{"variables_not_an_object",
              [](Chat& c) { c.set_template_kwargs_json("true"); },
              "chat.template_kwargs_json", "'true'"},
        Wrong{
            "variables_replace_messages",
            [](Chat& c) { c.set_template_kwargs_json(R"({"messages": []})"); },
            "chat.template_kwargs_json", "'messages'"},
        Wrong{"variables_replace_tools",
              [](Chat& c) { c.set_template_kwargs_json(R"({"tools": []})"); },
              "chat.template_kwargs_json", "'tools'"},
        Wrong{
            "unknown_tool_choice",
            [](Chat& c) { c.set_tool_choice(static_cast<v1::ToolChoice>(7)); },
            "chat.tool_choice", "7"}),
    [](const auto& test) { return test.param.name; });

TEST(ChatCodecTest, BoundsThemselvesAreAllowed) {
  v1::ChatInput chat = OneMessage();
  chat.add_tools_json(Nested(31));
  chat.add_tools_json(ManyMembers(256));

  const auto context = DecodeChat(chat);

  EXPECT_TRUE(context.ok()) << context.status();
}

}  // namespace
}  // namespace bole
