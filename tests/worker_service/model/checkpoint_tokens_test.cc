#include "worker_service/model/checkpoint_tokens.h"

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/common/tokenizer/tiny_tokenizer.h"
#include "tests/worker_service/model/files.h"

namespace bole {
namespace {

using Ids = std::vector<int32_t>;

// A folder of a model with 512 rows, of which config.json says that row 7 ends
// a text.
class CheckpointTokensTest : public ::testing::Test {
 protected:
  CheckpointTokensTest() {
    model_.vocab_size = 512;
    model_.eos_token_ids = {7};
  }

  absl::StatusOr<CheckpointTokens> Load() const {
    return LoadCheckpointTokens(folder_.path(), model_, generation_);
  }
  CheckpointTokens LoadOrFail() const {
    absl::StatusOr<CheckpointTokens> tokens = Load();
    EXPECT_TRUE(tokens.ok()) << tokens.status();
    return tokens.ok() ? *std::move(tokens) : CheckpointTokens{};
  }
  std::string Error() const {
    const absl::Status status = Load().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  }
  void WriteTokenizer() const {
    folder_.Write("tokenizer.json", testing::TinyJson().dump());
  }
  void WriteConfig(const std::string& json) const {
    folder_.Write("tokenizer_config.json", json);
  }

  const ScopedDirectory folder_;
  ModelConfig model_;
  GenerationConfig generation_;
};

TEST_F(CheckpointTokensTest, StopTokensAreTheUnionOfAllThreeFiles) {
  WriteTokenizer();
  WriteConfig(R"({"eos_token": "<s>"})");
  generation_.eos_token_ids = {301, 7};

  const CheckpointTokens tokens = LoadOrFail();

  EXPECT_EQ(tokens.stop_tokens, (Ids{7, 300, 301}));
  EXPECT_EQ(tokens.num_ids, 303);
  EXPECT_NE(tokens.tokenizer, nullptr);
}

// What a release has whose generation_config.json was left behind: config.json
// names the end of a document, and only tokenizer_config.json that of a turn.
TEST_F(CheckpointTokensTest, TheEndOfATurnIsFoundWithoutAGenerationConfig) {
  WriteTokenizer();
  WriteConfig(R"({"eos_token": {"content": "<s>x", "special": true}})");

  EXPECT_EQ(LoadOrFail().stop_tokens, (Ids{7, 302}));
}

TEST_F(CheckpointTokensTest, AnEosTokenThatIsListedAlreadyComesOnce) {
  WriteTokenizer();
  WriteConfig(R"({"eos_token": "<s>"})");
  generation_.eos_token_ids = {300};

  EXPECT_EQ(LoadOrFail().stop_tokens, (Ids{7, 300}));
}

TEST_F(CheckpointTokensTest, AnEosTokenMayBeOfTheVocabulary) {
  WriteTokenizer();
  WriteConfig(R"({"eos_token": "abc"})");

  EXPECT_EQ(LoadOrFail().stop_tokens, (Ids{7, 258}));
}

TEST_F(CheckpointTokensTest, AnEosTokenThatIsNoTokenIsNamed) {
  WriteTokenizer();
  WriteConfig(R"({"eos_token": "<end>"})");

  EXPECT_EQ(Error(),
            "tokenizer_config.json: eos_token: \"<end>\" is not a token of "
            "tokenizer.json, vocab.json or added_tokens_decoder");
}

TEST_F(CheckpointTokensTest, AStopTokenBeyondTheModelIsNamed) {
  WriteTokenizer();
  WriteConfig(R"({"eos_token": "<s>"})");
  model_.vocab_size = 300;

  EXPECT_EQ(Error(),
            "tokenizer_config.json: eos_token: \"<s>\" is token 300, expected "
            "less than vocab_size, 300");
  generation_.eos_token_ids = {400};
  EXPECT_EQ(Error(),
            "generation_config.json: eos_token_id: 400, expected less than "
            "vocab_size, 300");
}

TEST_F(CheckpointTokensTest, WithoutATokenizerTheOtherFilesTellWhatIsPadding) {
  folder_.Write("vocab.json", R"({"a": 0, "b": 8, "<|im_end|>": 9})");
  EXPECT_EQ(LoadOrFail().num_ids, 10);

  WriteConfig(R"({"eos_token": "<s>", "added_tokens_decoder":
                  {"400": {"content": "<s>"}, "401": {"content": "<t>"}}})");
  const CheckpointTokens tokens = LoadOrFail();

  EXPECT_EQ(tokens.num_ids, 402);
  EXPECT_EQ(tokens.stop_tokens, (Ids{7, 400}));
  EXPECT_EQ(tokens.tokenizer, nullptr);
}

TEST_F(CheckpointTokensTest, WithoutAnyListTheNumberOfTokensIsUnknown) {
  EXPECT_EQ(LoadOrFail().num_ids, std::nullopt);
  EXPECT_EQ(LoadOrFail().stop_tokens, (Ids{7}));

  // This file is of no use without a list of tokens.
  WriteConfig(R"({"eos_token": "<s>"})");
  EXPECT_EQ(LoadOrFail().num_ids, std::nullopt);
  EXPECT_EQ(LoadOrFail().stop_tokens, (Ids{7}));
}

// In a byte-level vocabulary at least the 256 bytes come before added tokens.
TEST_F(CheckpointTokensTest, AddedTokensThatComeFirstDoNotEndTheVocabulary) {
  WriteConfig(R"({"added_tokens_decoder": {"0": {"content": "<unk>"},
                                           "1": {"content": "<s>"}}})");
  EXPECT_EQ(LoadOrFail().num_ids, std::nullopt);

  folder_.Write("vocab.json", R"({"a": 2, "b": 3})");
  EXPECT_EQ(LoadOrFail().num_ids, 8);  // 7 ends a text, so it is a token.
}

// It would never be drawn, and a chat would never stop.
TEST_F(CheckpointTokensTest, AStopTokenIsNoPadding) {
  folder_.Write("vocab.json", R"({"a": 0, "b": 1})");
  generation_.eos_token_ids = {301};

  EXPECT_EQ(LoadOrFail().num_ids, 302);
}

TEST_F(CheckpointTokensTest, MoreIdsThanRowsAreThoseOfTheModel) {
  WriteTokenizer();
  model_.vocab_size = 200;

  EXPECT_EQ(LoadOrFail().num_ids, 200);
}

TEST_F(CheckpointTokensTest, ABadVocabularyIsNamed) {
  const std::string path = folder_.Write("vocab.json", R"({"a": -1})");

  EXPECT_EQ(Error(), path +
                         ": [\"a\"]: must be an integer from 0 to 1048575, but "
                         "it is -1");
}

// The files of a release, with and without its tokenizer.json. Qwen3 has 151936
// rows, of which 151669 are tokens.
TEST_F(CheckpointTokensTest, AReleaseIsReadEitherWay) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing sets it.
  const char* data = std::getenv("BOLE_DATA_DIR");
  const std::string release =
      std::string(data != nullptr ? data : ".") + "/tokenizer/qwen3";
  if (!std::filesystem::exists(release)) {
    GTEST_SKIP() << "needs tokenizer/qwen3 in BOLE_DATA_DIR";
  }
  model_.vocab_size = 151936;
  model_.eos_token_ids = {151643};  // <|endoftext|>, as in its config.json.
  std::filesystem::create_symlink(release + "/tokenizer_config.json",
                                  folder_.File("tokenizer_config.json"));

  const CheckpointTokens listed = LoadOrFail();
  std::filesystem::create_symlink(release + "/tokenizer.json",
                                  folder_.File("tokenizer.json"));
  const CheckpointTokens whole = LoadOrFail();

  EXPECT_NE(whole.tokenizer, nullptr);
  for (const CheckpointTokens* tokens : {&listed, &whole}) {
    EXPECT_EQ(tokens->num_ids, 151669);
    EXPECT_EQ(tokens->stop_tokens, (Ids{151643, 151645}));  // <|im_end|>
  }
}

}  // namespace
}  // namespace bole
