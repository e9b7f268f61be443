// What Qwen3.5's template makes of conversations. The template is not in the
// tree: the tests read it from BOLE_DATA_DIR, and skip without.

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "tests/common/chat/template_cases.h"

namespace bole {
namespace {

using testing::Json;

class QwenTemplateTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto source = testing::CheckpointTemplate("qwen3.5.jinja");
    if (!source) GTEST_SKIP() << "needs tokenizer/templates in BOLE_DATA_DIR";
    template_ = *source;
  }

  absl::StatusOr<std::string> TryRender(const char* messages,
                                        Json context = Json::object()) const {
    context["messages"] = Json::parse(messages);
    return testing::Render(template_, context);
  }

  std::string Render(const char* messages,
                     Json context = Json::object()) const {
    const auto text = TryRender(messages, std::move(context));
    EXPECT_TRUE(text.ok()) << text.status();
    return text.value_or("");
  }

 private:
  std::string template_;
};

// The smaller models, whose template this is, think only when told to.
TEST_F(QwenTemplateTest, GenerationPromptsOpenOrCloseTheirThinking) {
  constexpr char kMessages[] = R"([{"role": "user", "content": " hi "}])";
  const std::string start =
      "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n";
  const Json prompt = {{"add_generation_prompt", true}};
  Json thinking = prompt;
  thinking["enable_thinking"] = true;
  Json not_thinking = prompt;
  not_thinking["enable_thinking"] = false;

  EXPECT_EQ(Render(kMessages, thinking), start + "<think>\n");
  EXPECT_EQ(Render(kMessages, not_thinking), start + "<think>\n\n</think>\n\n");
  EXPECT_EQ(Render(kMessages, prompt), start + "<think>\n\n</think>\n\n");
}

TEST_F(QwenTemplateTest, ReasoningBeforeTheLastQueryIsDropped) {
  EXPECT_EQ(Render(R"([{"role": "system", "content": "S"},
                       {"role": "user", "content": "hi"},
                       {"role": "assistant",
                        "content": "<think>\nabc\n</think>\n\nyo"},
                       {"role": "user", "content": "x"}])"),
            "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n"
            "<|im_start|>assistant\nyo<|im_end|>\n"
            "<|im_start|>user\nx<|im_end|>\n");
}

TEST_F(QwenTemplateTest, AnAnswerWithoutReasoningHasAnEmptyBlock) {
  EXPECT_EQ(Render(R"([{"role": "user", "content": "hi"},
                       {"role": "assistant", "content": "yo"}])"),
            "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
            "<think>\n\n</think>\n\nyo<|im_end|>\n");
}

TEST_F(QwenTemplateTest, ArgumentsOfCallsAreSpelledAsInPython) {
  EXPECT_EQ(
      Render(R"([{"role": "user", "content": "q"},
                 {"role": "assistant", "content": "", "tool_calls": [
                  {"function": {"name": "f", "arguments":
                   {"a": 1, "b": "x", "c": true, "d": null,
                    "e": [1, "\u00e9"]}}}]}])"),
      "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n"
      "<think>\n\n</think>\n\n<tool_call>\n<function=f>\n"
      "<parameter=a>\n1\n</parameter>\n<parameter=b>\nx\n</parameter>\n"
      "<parameter=c>\nTrue\n</parameter>\n<parameter=d>\nNone\n</parameter>\n"
      "<parameter=e>\n[1, \"\u00e9\"]\n</parameter>\n</function>\n"
      "</tool_call><|im_end|>\n");
}

TEST_F(QwenTemplateTest, ToolResponsesShareOneTurn) {
  const std::string text = Render(R"([{"role": "user", "content": "q"},
                 {"role": "assistant", "content": "a"},
                 {"role": "tool", "content": "r1"},
                 {"role": "tool", "content": " r2 "}])");

  EXPECT_TRUE(
      text.ends_with("<|im_start|>user\n<tool_response>\nr1\n</tool_response>\n"
                     "<tool_response>\nr2\n</tool_response><|im_end|>\n"))
      << text;
}

TEST_F(QwenTemplateTest, ConversationsItRefusesAreErrorsInItsWords) {
  const auto error_of = [this](const char* messages) {
    const absl::Status status = TryRender(messages).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  };

  EXPECT_EQ(error_of("[]"), "No messages provided.");
  EXPECT_EQ(error_of(R"([{"role": "assistant", "content": "a"}])"),
            "No user query found in messages.");
  EXPECT_EQ(error_of(R"([{"role": "user", "content": "a"},
                         {"role": "system", "content": "b"}])"),
            "System message must be at the beginning.");
  EXPECT_EQ(error_of(R"([{"role": "user", "content": "a"},
                         {"role": "critic", "content": "b"}])"),
            "Unexpected message role.");
}

}  // namespace
}  // namespace bole
