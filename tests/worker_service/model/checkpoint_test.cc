#include "worker_service/model/checkpoint.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "tests/worker_service/model/files.h"
#include "worker_service/model/safetensors_writer.h"

namespace bole {
namespace {

constexpr std::string_view kIndex = "model.safetensors.index.json";

// A file with a one-element tensor for each name.
void WriteShard(const ScopedDirectory& directory, std::string_view file,
                const std::vector<std::string>& names) {
  const std::vector<float> value = {1};
  TensorMap tensors;
  for (const std::string& name : names) {
    tensors[name] = FloatTensor(value, {1});
  }
  ASSERT_TRUE(WriteSafetensors(directory.File(file), tensors).ok());
}

std::string WeightMap(const std::string& members) {
  return R"({"metadata": {"total_size": 8}, "weight_map": {)" + members + "}}";
}

// The error of opening the directory with this index.
absl::Status ErrorOfIndex(const ScopedDirectory& directory,
                          const std::string& index) {
  directory.Write(kIndex, index);
  absl::Status status = Checkpoint::Open(directory.path()).status();
  EXPECT_FALSE(status.ok());
  return status;
}

TEST(CheckpointTest, ReadsTheShardsOfTheDemo) {
  const absl::StatusOr<Checkpoint> demo = Checkpoint::Open("models/demo");

  ASSERT_TRUE(demo.ok()) << demo.status();
  EXPECT_EQ(demo->tensors().size(), 123u);
  const std::optional<TensorView> norm = demo->Find("mtp.norm.weight");
  ASSERT_TRUE(norm.has_value());
  EXPECT_EQ(norm->shape, (std::vector<int64_t>{256}));
  EXPECT_FALSE(demo->Find("lm_head.weight").has_value());
}

TEST(CheckpointTest, ReadsASingleFile) {
  const absl::StatusOr<Checkpoint> dense =
      Checkpoint::Open("tests/golden/dense");

  ASSERT_TRUE(dense.ok()) << dense.status();
  EXPECT_EQ(dense->tensors().size(), 71u);
}

TEST(CheckpointTest, ViewsSurviveAMove) {
  const ScopedDirectory directory;
  WriteShard(directory, "model.safetensors", {"w"});
  absl::StatusOr<Checkpoint> opened = Checkpoint::Open(directory.path());
  ASSERT_TRUE(opened.ok()) << opened.status();
  const TensorView before = *opened->Find("w");

  const Checkpoint moved = *std::move(opened);

  EXPECT_EQ(moved.Find("w")->data.data(), before.data.data());
  std::vector<float> value(1);
  ASSERT_TRUE(ConvertToFloat(before, value).ok());
  EXPECT_EQ(value[0], 1);
}

TEST(CheckpointTest, TheIndexIsPreferredToASingleFile) {
  const ScopedDirectory directory;
  WriteShard(directory, "model.safetensors", {"single"});
  WriteShard(directory, "a", {"sharded"});
  directory.Write(kIndex, WeightMap(R"("sharded": "a")"));

  const absl::StatusOr<Checkpoint> checkpoint =
      Checkpoint::Open(directory.path());

  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_TRUE(checkpoint->Find("sharded").has_value());
  EXPECT_FALSE(checkpoint->Find("single").has_value());
}

TEST(CheckpointTest, AFolderWithoutTensorsSaysWhatItLacks) {
  const ScopedDirectory directory;
  const std::string missing = directory.File("missing");

  EXPECT_EQ(
      Checkpoint::Open(directory.path()).status(),
      absl::NotFoundError(directory.path() +
                          ": has neither model.safetensors.index.json nor "
                          "model.safetensors"));
  EXPECT_EQ(Checkpoint::Open(missing).status(),
            absl::NotFoundError(missing + ": there is no such directory"));
}

TEST(CheckpointTest, ASingleFileThatIsADirectoryIsAnError) {
  const ScopedDirectory directory;
  const std::string path = directory.File("model.safetensors");
  std::filesystem::create_directory(path);

  EXPECT_EQ(
      Checkpoint::Open(directory.path()).status(),
      absl::InvalidArgumentError(path + ": is a directory, expected a file"));
}

TEST(CheckpointTest, AMissingShardIsNamed) {
  const ScopedDirectory directory;

  EXPECT_EQ(
      ErrorOfIndex(directory, WeightMap(R"("w": "a")")),
      absl::NotFoundError(directory.File("a") + ": No such file or directory"));
}

TEST(CheckpointTest, ADamagedShardIsNamed) {
  const ScopedDirectory directory;
  directory.Write("a", "1234");

  const absl::Status status = ErrorOfIndex(directory, WeightMap(R"("w": "a")"));

  EXPECT_EQ(status.message(),
            directory.File("a") +
                ": has 4 bytes, expected at least 8 for the header's length");
}

TEST(CheckpointTest, AListedTensorMustBeInItsShard) {
  const ScopedDirectory directory;
  WriteShard(directory, "a", {"w"});
  WriteShard(directory, "b", {"x"});

  EXPECT_EQ(
      ErrorOfIndex(directory, WeightMap(R"("w": "a", "x": "b", "y": "b")")),
      absl::InvalidArgumentError(directory.File(kIndex) +
                                 ": tensor \"y\" is not in its shard \"b\""));
}

TEST(CheckpointTest, ATensorMustBeListedWhereItIs) {
  const ScopedDirectory directory;
  WriteShard(directory, "a", {"w"});
  WriteShard(directory, "b", {"w", "x"});

  EXPECT_EQ(ErrorOfIndex(directory, WeightMap(R"("w": "a", "x": "b")")),
            absl::InvalidArgumentError(
                directory.File(kIndex) +
                ": tensor \"w\" is in the shard \"b\", where it is not "
                "listed"));
}

TEST(CheckpointTest, AShardMustNotLeadElsewhere) {
  const ScopedDirectory directory;
  for (const char* shard :
       {"../a", "/etc/passwd", "x/a", "..", ".", "", "x\\\\a", "a\\u0000b"}) {
    const absl::Status status = ErrorOfIndex(
        directory, WeightMap("\"w\": \"" + std::string(shard) + "\""));

    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << shard;
    EXPECT_NE(std::string(status.message())
                  .find("the shard of \"w\", is not a plain file name"),
              std::string::npos)
        << status;
  }
}

TEST(CheckpointTest, AnIndexMustBeAnIndex) {
  const ScopedDirectory directory;
  const std::string path = directory.File(kIndex);

  for (const char* index : {"[]", "{}", R"({"weight_map": []})", "7"}) {
    EXPECT_EQ(ErrorOfIndex(directory, index),
              absl::InvalidArgumentError(
                  path + ": weight_map is missing or no object"));
  }
  EXPECT_EQ(ErrorOfIndex(directory, WeightMap(R"("w": 7)")),
            absl::InvalidArgumentError(
                path + ": weight_map: the shard of \"w\" is not a string"));
  EXPECT_EQ(ErrorOfIndex(directory, std::string(100'000, '[')),
            absl::InvalidArgumentError(path + ": JSON: nested deeper than 8"));
  EXPECT_EQ(
      ErrorOfIndex(directory, WeightMap(R"("w": "a", "w": "a")")),
      absl::InvalidArgumentError(path + ": JSON: key twice in one object: w"));
}

}  // namespace
}  // namespace bole
