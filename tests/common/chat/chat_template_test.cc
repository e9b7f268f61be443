#include "common/chat/chat_template.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "tests/common/chat/template_cases.h"

namespace bole {
namespace {

using testing::Json;
using testing::Render;

using Files = std::map<std::string, std::string>;  // Text by name.

// A folder with the given files, removed at the end.
class Checkpoint {
 public:
  explicit Checkpoint(const Files& files)
      : folder_(::testing::TempDir() + "/checkpoint") {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    for (const auto& [name, text] : files) {
      std::ofstream(folder_ + "/" + name) << text;
    }
  }
  ~Checkpoint() { std::filesystem::remove_all(folder_); }
  Checkpoint(const Checkpoint&) = delete;
  Checkpoint& operator=(const Checkpoint&) = delete;

  const std::string& folder() const { return folder_; }

 private:
  std::string folder_;
};

std::string RenderFrom(const std::string& folder) {
  const absl::StatusOr<ChatTemplate> chat =
      ChatTemplate::LoadFromCheckpoint(folder);
  if (!chat.ok()) return chat.status().ToString();
  return chat->Render({{"x", 1}}).value_or("failed");
}

TEST(ChatTemplateTest, TheTemplateFileComesBeforeTheConfig) {
  const Checkpoint checkpoint(Files{
      {"chat_template.jinja", "file {{ x }}"},
      {"tokenizer_config.json", R"({"chat_template": "config {{ x }}"})"}});

  EXPECT_EQ(RenderFrom(checkpoint.folder()), "file 1");
}

TEST(ChatTemplateTest, TheConfigMayHoldOneTemplateOrNamedOnes) {
  const auto rendered = [](const char* config) {
    const Checkpoint checkpoint(Files{{"tokenizer_config.json", config}});
    return RenderFrom(checkpoint.folder());
  };

  EXPECT_EQ(rendered(R"({"chat_template": "one {{ x }}"})"), "one 1");
  EXPECT_EQ(rendered(R"({"chat_template": [
                            {"name": "rag", "template": "no"},
                            {"name": "default", "template": "named {{ x }}"}
                        ]})"),
            "named 1");
}

TEST(ChatTemplateTest, ACheckpointWithoutATemplateIsNotFound) {
  const auto status_of = [](const Checkpoint& checkpoint) {
    return ChatTemplate::LoadFromCheckpoint(checkpoint.folder()).status();
  };
  EXPECT_TRUE(absl::IsNotFound(status_of(Checkpoint(Files{}))));
  EXPECT_TRUE(absl::IsNotFound(
      status_of(Checkpoint(Files{{"tokenizer_config.json", "{}"}}))));
  EXPECT_TRUE(absl::IsNotFound(status_of(Checkpoint(
      Files{{"tokenizer_config.json", R"({"chat_template": null})"}}))));
}

TEST(ChatTemplateTest, ABrokenCheckpointIsAnErrorThatNamesTheFile) {
  const auto error_of = [](const char* name, const char* text) {
    const Checkpoint checkpoint(Files{{name, text}});
    const absl::Status status =
        ChatTemplate::LoadFromCheckpoint(checkpoint.folder()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    const std::string message(status.message());
    EXPECT_TRUE(absl::StartsWith(message, checkpoint.folder() + "/" + name))
        << message;
    return message.substr(checkpoint.folder().size() + 1);
  };
  EXPECT_EQ(error_of("chat_template.jinja", "a\n{% if %}"),
            "chat_template.jinja: line 2: expected an expression, not %}");
  EXPECT_EQ(error_of("tokenizer_config.json", R"({"chat_template": 5})"),
            "tokenizer_config.json: chat_template: must be a string or a list, "
            "but it is a number");
  EXPECT_EQ(error_of("tokenizer_config.json", R"({"chat_template": [{}, 1]})"),
            "tokenizer_config.json: chat_template: no template named default");
  error_of("tokenizer_config.json", "[");
}

TEST(ChatTemplateTest, TheContextMustBeAnObject) {
  EXPECT_EQ(Render("x", Json::array()).status().message(),
            "the context must be an object, but it is a array");
}

TEST(ChatTemplateTest, WhatATemplateRaisesIsTheMessage) {
  const absl::Status status =
      Render("{{ raise_exception('No user query found.') }}", Json::object())
          .status();

  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "No user query found.");
}

TEST(ChatTemplateTest, InvalidUtf8InTheContextIsReplaced) {
  EXPECT_EQ(*Render("{{ x }}{{ d }}", {{"x", "a\xFF"}, {"d", {{"\xC3", 1}}}}),
            "a\uFFFD{'\uFFFD': 1}");
}

TEST(ChatTemplateTest, OneTemplateRendersOnManyThreads) {
  const auto chat = ChatTemplate::Parse(
      "{% set ns = namespace(n=0) %}{% for i in l %}{% set ns.n = ns.n + i %}"
      "{% endfor %}{{ ns.n }}");
  ASSERT_TRUE(chat.ok()) << chat.status();
  std::vector<std::thread> threads;
  std::vector<std::string> results(8);

  for (size_t t = 0; t < results.size(); ++t) {
    threads.emplace_back([&chat, &result = results[t], t] {
      for (int round = 0; round < 50; ++round) {
        result = chat->Render({{"l", {t, 1}}}).value_or("failed");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();

  for (size_t t = 0; t < results.size(); ++t) {
    EXPECT_EQ(results[t], std::to_string(t + 1));
  }
}

TEST(ChatTemplateTest, TheDemoCheckpointHasATemplate) {
  const auto chat = ChatTemplate::LoadFromCheckpoint("models/demo");
  ASSERT_TRUE(chat.ok()) << chat.status();

  const auto text =
      chat->Render({{"messages", {{{"role", "user"}, {"content", "hi"}}}},
                    {"add_generation_prompt", true}});

  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(*text, "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n");
}

}  // namespace
}  // namespace bole
