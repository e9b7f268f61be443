#include "common/chat/output/output_parser.h"

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace bole {
namespace {

using Start = OutputFormat::Start;

std::shared_ptr<const OutputFormat> Format(Start start,
                                           CallForm form = CallForm::kXml) {
  return std::make_shared<const OutputFormat>(OutputFormat{
      .start = start,
      .calls = form,
      .tools = ToolSet(nlohmann::ordered_json::parse(
          R"([{"function": {"name": "f", "parameters": {"properties":
               {"n": {"type": "integer"}, "s": {"type": "string"}}}}}])"))});
}

void Append(OutputDelta more, OutputDelta& all) {
  all.content += more.content;
  all.reasoning += more.reasoning;
  all.calls.insert(all.calls.end(), more.calls.begin(), more.calls.end());
}

OutputDelta Parse(std::string_view text, Start start = Start::kContent,
                  CallForm form = CallForm::kXml) {
  OutputParser parser(Format(start, form));
  OutputDelta all = parser.Push(text);
  Append(parser.Finish(), all);
  EXPECT_EQ(parser.held_bytes(), 0u);
  return all;
}

constexpr char kCall[] = "<tool_call>\n<function=f>\n</function>\n</tool_call>";

TEST(OutputParserTest, NewlinesAroundTagsAreNoText) {
  const OutputDelta out =
      Parse(std::string("\n\na\n\nb\n\n</think>\n\n\nc\nd\n\n") + kCall + "\n" +
                kCall + "\n",
            Start::kReasoning);

  EXPECT_EQ(out.reasoning, "a\n\nb");
  EXPECT_EQ(out.content, "c\nd");
  EXPECT_EQ(out.calls.size(), 2u);
}

TEST(OutputParserTest, OtherWhiteSpaceIsText) {
  const OutputDelta out =
      Parse(" a \n</think>\n b \n" + std::string(kCall) + "\n c\n",
            Start::kReasoning);

  EXPECT_EQ(out.reasoning, " a ");
  EXPECT_EQ(out.content, " b \n c\n");
}

TEST(OutputParserTest, TheStartDecidesWhetherThereIsReasoning) {
  constexpr char kText[] = "\n<think>\nx</think>y";

  EXPECT_EQ(Parse(kText, Start::kContent).content, kText);
  EXPECT_EQ(Parse(kText, Start::kAfterThought).content, "<think>\nx</think>y");
  EXPECT_EQ(Parse(kText, Start::kMayReason).content, "y");
  EXPECT_EQ(Parse(kText, Start::kMayReason).reasoning, "x");
  EXPECT_EQ(Parse(kText, Start::kReasoning).reasoning, "<think>\nx");
  EXPECT_EQ(Parse("\nz <think>", Start::kMayReason).content, "\nz <think>");
}

TEST(OutputParserTest, ReasoningThatIsCutOffIsReasoning) {
  const OutputDelta out =
      Parse("a " + std::string(kCall) + " </thi", Start::kReasoning);

  EXPECT_EQ(out.reasoning, "a " + std::string(kCall) + " </thi");
  EXPECT_EQ(out.content, "");
  EXPECT_TRUE(out.calls.empty());
}

TEST(OutputParserTest, TextComesAsSoonAsItIsCertain) {
  OutputParser parser(Format(Start::kContent));

  EXPECT_EQ(parser.Push("a <b").content, "a <b");
  EXPECT_EQ(parser.Push(" <tool").content, " ");
  EXPECT_EQ(parser.held_bytes(), 5u);
  EXPECT_EQ(parser.Push("s\n").content, "<tools");
  EXPECT_EQ(parser.Push("<tool_call>\n<function=").content, "");
  const OutputDelta unknown = parser.Push("g>");
  EXPECT_EQ(unknown.content, "\n<tool_call>\n<function=g>");
  EXPECT_EQ(parser.Push(kCall).calls.size(), 1u);
}

TEST(OutputParserTest, MalformedCallsAreContentAsTheyWereWritten) {
  const std::string good = kCall;
  for (const std::string bad : {
           "<tool_call>\n</tool_call>",
           "<tool_call>\n<function=>\n</function>\n</tool_call>",
           "<tool_call>\n<function=unknown>\n</function>\n</tool_call>",
           "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>",
           "<tool_call>\n<function=f>\n<parameter=n>\n1\n</function>\n"
           "</tool_call>",
           "<tool_call>\n<function=f>\n<parameter=n>\n1\n</parameter>\n"
           "<parameter=n>\n2\n</parameter>\n</function>\n</tool_call>",
           "<tool_call>\n<function=f>\nstray</function>\n</tool_call>",
           "<tool_call>\n<function=f>\n</function>\nstray</tool_call>",
       }) {
    const OutputDelta out = Parse(bad + "\n\n" + good + "end");
    EXPECT_EQ(out.content, bad + "end") << bad;
    EXPECT_EQ(out.calls.size(), 1u) << bad;
  }
  for (const std::string cut :
       {"x\n<tool_call>",
        "x\n<tool_call>\n<function=f>\n<parameter=n>\n1\n</pa",
        "x\n<tool_call>\n<function=f>\n</function>\n</tool_call"}) {
    EXPECT_EQ(Parse(cut).content, cut);
  }
}

TEST(OutputParserTest, ACallWithinOneThatFailsIsACall) {
  const OutputDelta out =
      Parse("<tool_call>\n<function=f>\n<parameter=n>\n" + std::string(kCall));

  EXPECT_EQ(out.content, "<tool_call>\n<function=f>\n<parameter=n>");
  EXPECT_EQ(out.calls.size(), 1u);
}

TEST(OutputParserTest, MalformedJsonCallsAreContent) {
  const auto parse = [](const std::string& call) {
    return Parse("<tool_call>\n" + call + "\n</tool_call>", Start::kContent,
                 CallForm::kJson);
  };

  EXPECT_EQ(parse(R"({"name": "f", "arguments": {"a": [1, "}"]}})")
                .calls.at(0)
                .arguments_json,
            R"({"a": [1, "}"]})");
  EXPECT_EQ(parse(R"({"name": "f"})").calls.at(0).arguments_json, "{}");
  for (const char* bad : {"{}", R"({"name": "g", "arguments": {}})",
                          R"({"name": "f", "arguments": "{}"})",
                          R"({"name": "f", "arguments": {"a": 1, "a": 2}})",
                          R"({"name": "f", "x": [], "arguments": {}})",
                          R"({"name": "f", "arguments": {"a": }})",
                          R"({"name": "f", "arguments": {"a": 1]})", "f"}) {
    const OutputDelta out = parse(bad);
    EXPECT_TRUE(out.calls.empty()) << bad;
    EXPECT_EQ(out.content,
              "<tool_call>\n" + std::string(bad) + "\n</tool_call>");
  }
}

TEST(OutputParserTest, NestingSizeAndNumberAreBounded) {
  const auto nested = [](int depth) {
    return Parse("<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": " +
                     std::string(depth - 1, '[') + std::string(depth - 1, ']') +
                     "}}</tool_call>",
                 Start::kContent, CallForm::kJson)
        .calls.size();
  };
  EXPECT_EQ(nested(kMaxCallDepth), 1u);
  EXPECT_EQ(nested(kMaxCallDepth + 1), 0u);

  const std::string head = "<tool_call><function=f><parameter=s>";
  const std::string tail = "</parameter></function></tool_call>";
  const std::string fits(kMaxCallBytes - head.size() - tail.size(), 'x');
  EXPECT_EQ(Parse(head + fits + tail).calls.size(), 1u);
  const std::string longer = head + fits + "x" + tail;
  EXPECT_EQ(Parse(longer).content, longer);

  std::string many;
  for (int i = 0; i <= kMaxOutputCalls; ++i) many += kCall;
  const OutputDelta out = Parse(many);
  EXPECT_EQ(std::ssize(out.calls), kMaxOutputCalls);
  EXPECT_EQ(out.content, kCall);
}

// What is left of `text` without its calls and newlines.
std::string Remaining(std::string text, const std::vector<OutputCall>& calls) {
  for (auto call = calls.rbegin(); call != calls.rend(); ++call) {
    EXPECT_TRUE(
        std::string_view(text).substr(call->begin).starts_with("<tool_call>"));
    text.erase(call->begin, call->size);
  }
  std::erase(text, '\n');
  return text;
}

std::string WithoutNewlines(std::string text) {
  std::erase(text, '\n');
  return text;
}

// Random texts of tags, halves of tags, and what stands between them.
TEST(OutputParserTest, NothingIsLostAndCutsDoNotMatter) {
  const std::vector<std::string> parts = {
      "<think>",
      "</think>",
      "<tool_call>",
      "</tool_call>",
      "<function=f>",
      "</function>",
      "<parameter=n>",
      "</parameter>",
      "<parameter=s>",
      "{\"name\": \"f\", \"arguments\": {}}",
      "\n",
      "\n",
      "\n\n",
      "1",
      "text",
      " ",
      "<",
      "</",
      "<tool",
      "é",
      kCall,
      "<tool_call>\n<function=f>\n<parameter=n>\n7\n</parameter>\n"};
  std::mt19937 random(20);
  size_t num_calls = 0;
  for (int round = 0; round < 1000; ++round) {
    std::string text;
    for (size_t i = random() % 24; i > 0; --i) {
      text += parts[random() % parts.size()];
    }
    const auto start = static_cast<Start>(random() % 4);
    const auto form = random() % 4 == 0 ? CallForm::kJson : CallForm::kXml;
    const OutputDelta whole = Parse(text, start, form);
    num_calls += whole.calls.size();
    const std::string left = Remaining(text, whole.calls);
    const std::string content = WithoutNewlines(whole.content);
    const std::string reasoning = WithoutNewlines(whole.reasoning);
    EXPECT_TRUE(left == reasoning + content ||
                left == "<think>" + reasoning + content ||
                left == reasoning + "</think>" + content ||
                left == "<think>" + reasoning + "</think>" + content)
        << text;

    // What is out after every byte is what is out if that is all at once.
    OutputParser bytes(Format(start, form));
    OutputDelta so_far;
    for (size_t at = 0; at < text.size(); ++at) {
      Append(bytes.Push(std::string_view(text).substr(at, 1)), so_far);
      OutputParser once(Format(start, form));
      const OutputDelta all =
          once.Push(std::string_view(text).substr(0, at + 1));
      ASSERT_EQ(so_far.content, all.content) << text;
      ASSERT_EQ(so_far.reasoning, all.reasoning) << text;
      ASSERT_EQ(so_far.calls.size(), all.calls.size()) << text;
    }
    Append(bytes.Finish(), so_far);
    ASSERT_EQ(so_far.content, whole.content) << text;
    ASSERT_EQ(so_far.reasoning, whole.reasoning) << text;
  }
  EXPECT_GT(num_calls, 100u);
}

}  // namespace
}  // namespace bole
