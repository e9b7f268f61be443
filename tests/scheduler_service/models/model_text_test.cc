#include "scheduler_service/models/model_text.h"

#include <filesystem>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/common/tokenizer/tiny_tokenizer.h"
#include "tests/worker_service/model/files.h"

namespace bole {
namespace {

TEST(ModelTextTest, ACheckpointHasATokenizerAndATemplate) {
  const absl::StatusOr<ModelText> text = LoadModelText("models/demo");

  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_TRUE(text->tokenizer->Encode("def f(n):").ok());
  ASSERT_TRUE(text->chat_template.has_value());
  const auto rendered = text->chat_template->Render(
      {{"messages", {{{"role", "user"}, {"content", "hello"}}}},
       {"add_generation_prompt", true}});
  ASSERT_TRUE(rendered.ok()) << rendered.status();
  EXPECT_NE(rendered->find("hello"), std::string::npos);
}

TEST(ModelTextTest, ATemplateIsNotNeeded) {
  const ScopedDirectory directory;
  directory.Write("tokenizer.json", testing::TinyTokenizerJson());

  const absl::StatusOr<ModelText> text = LoadModelText(directory.path());

  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_FALSE(text->chat_template.has_value());
}

TEST(ModelTextTest, ABrokenTemplateIsAnErrorThatNamesTheFile) {
  const ScopedDirectory directory;
  directory.Write("tokenizer.json", testing::TinyTokenizerJson());
  directory.Write("chat_template.jinja", "{% for %}");

  const absl::Status status = LoadModelText(directory.path()).status();

  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_NE(status.message().find("chat_template.jinja"), std::string::npos);
}

TEST(ModelTextTest, ATokenizerIsNeeded) {
  const ScopedDirectory directory;

  const absl::Status status = LoadModelText(directory.path()).status();

  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_NE(status.message().find("tokenizer.json"), std::string::npos);
}

}  // namespace
}  // namespace bole
