// What a checkpoint says of itself in many files, and what is made of it when
// they contradict one another or are missing.
#include "worker_service/loading/loaded_model.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "common/check.h"
#include "gtest/gtest.h"
#include "kernels/reference/reference_backend.h"
#include "nlohmann/json.hpp"
#include "tests/common/tokenizer/tiny_tokenizer.h"
#include "tests/worker_service/model/files.h"
#include "worker_service/engine/engine.h"
#include "worker_service/engine/engine_sizes.h"
#include "worker_service/model/checkpoint.h"
#include "worker_service/model/safetensors_writer.h"
#include "worker_service/model/tensor_view.h"
#include "worker_service/model/weights.h"

namespace bole {
namespace {

using nlohmann::json;

constexpr char kGolden[] = "tests/golden/dense";

// A folder with the weights of a tiny model of 512 rows, to which tests add the
// files of their case.
class LoadedModelTest : public ::testing::Test {
 protected:
  LoadedModelTest() {
    std::ifstream(std::string(kGolden) + "/config.json") >> config_;
    std::filesystem::copy_file(std::string(kGolden) + "/model.safetensors",
                               folder_.File("model.safetensors"));
  }

  // Everything that a released checkpoint has.
  void WriteComplete() {
    folder_.Write("tokenizer.json", testing::TinyJson().dump());
    folder_.Write("tokenizer_config.json", R"({"eos_token": "<s>"})");
    folder_.Write("chat_template.jinja", "{{ messages }}");
    folder_.Write("generation_config.json", R"({"min_p": 0.25})");
  }
  void WriteWithoutDrafter() const {
    const absl::StatusOr<Checkpoint> checkpoint = Checkpoint::Open(kGolden);
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
    TensorMap tensors = checkpoint->tensors();
    std::erase_if(tensors, [](const auto& tensor) {
      return absl::StartsWith(tensor.first, "mtp.");
    });
    const absl::Status written =
        WriteSafetensors(folder_.File("model.safetensors"), tensors);
    ASSERT_TRUE(written.ok()) << written;
  }
  void Remove(std::string_view name) const {
    std::filesystem::remove(folder_.File(name));
  }

  absl::StatusOr<LoadedModel> Load() {
    folder_.Write("config.json", config_.dump());
    return LoadModel(folder_.path(), backend_);
  }
  LoadedModel LoadOrDie() {
    absl::StatusOr<LoadedModel> model = Load();
    BOLE_CHECK(model.ok());
    return *std::move(model);
  }

  const ScopedDirectory folder_;
  ReferenceBackend backend_{/*num_threads=*/1};
  json config_;
};

// The start of the only note.
void ExpectNote(const LoadedModel& model, const std::string& start) {
  ASSERT_EQ(model.notes.size(), 1u);
  EXPECT_TRUE(absl::StartsWith(model.notes[0], start)) << model.notes[0];
}

TEST_F(LoadedModelTest, ACompleteCheckpointNeedsNoWord) {
  WriteComplete();

  const LoadedModel model = LoadOrDie();

  EXPECT_TRUE(model.notes.empty()) << model.notes[0];
  EXPECT_EQ(model.stop_tokens, (std::vector<int32_t>{300}));
  EXPECT_EQ(model.num_valid_tokens(), 303);
  EXPECT_EQ(model.generation.min_p, 0.25);
  EXPECT_TRUE(model.weights->drafter.has_value());
}

TEST_F(LoadedModelTest, ProgressGoesFromNothingToTheBytesOfAllMatrices) {
  WriteComplete();
  folder_.Write("config.json", config_.dump());
  int64_t all_bytes = 0;
  const absl::StatusOr<Checkpoint> checkpoint = Checkpoint::Open(kGolden);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  for (const auto& [name, tensor] : checkpoint->tensors()) {
    if (tensor.shape.size() == 2) all_bytes += std::ssize(tensor.data);
  }
  std::vector<int64_t> done;

  const absl::StatusOr<LoadedModel> model =
      LoadModel(folder_.path(), backend_, [&](const LoadProgress& progress) {
        EXPECT_EQ(progress.all_bytes, all_bytes);
        done.push_back(progress.done_bytes);
      });

  ASSERT_TRUE(model.ok()) << model.status();
  ASSERT_GT(done.size(), 10u);
  EXPECT_EQ(done.front(), 0);
  EXPECT_EQ(done.back(), all_bytes);
  for (size_t i = 1; i < done.size(); ++i) EXPECT_GT(done[i], done[i - 1]);
}

TEST_F(LoadedModelTest, AMissingGenerationConfigIsSaidWithTheDefaults) {
  WriteComplete();
  Remove("generation_config.json");

  const LoadedModel model = LoadOrDie();

  ASSERT_EQ(model.notes.size(), 1u);
  EXPECT_EQ(
      model.notes[0],
      "there is no generation_config.json, so requests are drawn with "
      "temperature 1, top_k 20, top_p 0.95, min_p 0, repetition_penalty 1 "
      "unless they say otherwise");
}

TEST_F(LoadedModelTest, AChatThatWouldNeverStopIsRefused) {
  WriteComplete();
  folder_.Write("tokenizer_config.json", "{}");

  const absl::Status status = Load().status();

  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            folder_.path() +
                ": neither eos_token_id of config.json or "
                "generation_config.json nor eos_token of tokenizer_config.json "
                "names a token that ends a text, so that a chat would never "
                "stop; add one of them");
}

TEST_F(LoadedModelTest, TextWithoutEndIsAllowedWithoutAChatTemplate) {
  WriteComplete();
  folder_.Write("tokenizer_config.json", "{}");
  Remove("chat_template.jinja");

  const LoadedModel model = LoadOrDie();

  EXPECT_TRUE(model.stop_tokens.empty());
  ExpectNote(model, "neither eos_token_id of config.json");
}

TEST_F(LoadedModelTest, PaddingIsKnownWithoutATokenizer) {
  WriteComplete();
  Remove("tokenizer.json");
  folder_.Write("vocab.json", R"({"a": 0, "<s>": 500})");

  const LoadedModel model = LoadOrDie();

  EXPECT_EQ(model.num_valid_tokens(), 501);
  EXPECT_EQ(model.stop_tokens, (std::vector<int32_t>{500}));
  ExpectNote(model,
             "there is no tokenizer.json; vocab.json and "
             "tokenizer_config.json list ids below 501, and the others of 512 "
             "are never drawn");
}

// Nothing can be drawn from a model whose padding is unknown; its forward can
// still be run.
TEST_F(LoadedModelTest, AnEngineIsRefusedIfPaddingIsUnknown) {
  WriteComplete();
  Remove("tokenizer.json");
  config_["text_config"]["eos_token_id"] = 5;

  const LoadedModel model = LoadOrDie();
  const absl::Status status =
      Engine::Create(model.config, *model.weights, backend_,
                     FitToModel(DefaultEngineOptions(), model))
          .status();

  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StartsWith(
      status.message(), "which of the model's 512 ids are tokens is unknown"))
      << status;
}

TEST_F(LoadedModelTest, DrafterTensorsCountAndNotWhatTheConfigurationSays) {
  WriteComplete();
  config_["text_config"]["mtp_num_hidden_layers"] = 0;

  const LoadedModel denied = LoadOrDie();

  EXPECT_TRUE(denied.weights->drafter.has_value());
  ExpectNote(denied, "config.json says mtp_num_hidden_layers 0, but there are");

  config_["text_config"].erase("mtp_num_hidden_layers");
  const LoadedModel untold = LoadOrDie();
  EXPECT_TRUE(untold.weights->drafter.has_value());
  EXPECT_TRUE(untold.notes.empty());
}

TEST_F(LoadedModelTest, WithoutDrafterTensorsNothingIsDrafted) {
  WriteComplete();
  WriteWithoutDrafter();

  const LoadedModel promised = LoadOrDie();

  EXPECT_FALSE(promised.weights->drafter.has_value());
  ExpectNote(promised, "there are no mtp.* tensors, so nothing is drafted");

  config_["text_config"]["mtp_num_hidden_layers"] = 0;
  const LoadedModel agreed = LoadOrDie();
  EXPECT_FALSE(agreed.weights->drafter.has_value());
  EXPECT_TRUE(agreed.notes.empty());
}

TEST_F(LoadedModelTest, ASyntheticModelHasNoPadding) {
  const absl::StatusOr<LoadedModel> model =
      LoadModel("synthetic:tiny,noise=0", backend_);

  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->num_valid_tokens(), model->config.vocab_size);
  EXPECT_TRUE(model->notes.empty());
}

}  // namespace
}  // namespace bole
