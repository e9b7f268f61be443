#include "worker_service/model/safetensors_writer.h"

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "tests/worker_service/model/files.h"
#include "worker_service/model/safetensors.h"

namespace bole {
namespace {

size_t NumFiles(const ScopedDirectory& directory) {
  const std::filesystem::directory_iterator files(directory.path());
  return static_cast<size_t>(std::distance(begin(files), end(files)));
}

TEST(SafetensorsWriterTest, WhatIsWrittenIsReadBack) {
  const ScopedDirectory directory;
  const std::vector<float> floats = {1.5f, -2.0f, 0.1f, 4.0f, 5.0f, 6.0f};
  const std::vector<int32_t> integers = {7, -8, INT32_MIN};
  const std::vector<uint8_t> bytes = {1, 2, 3};

  const absl::Status status = WriteSafetensors(
      directory.File("t"), {{"logits", FloatTensor(floats, {2, 3})},
                            {"ids", Int32Tensor(integers, {3})},
                            {"bytes",
                             {.name = "",
                              .dtype = StoredDtype::kU8,
                              .shape = {3, 1},
                              .data = std::as_bytes(std::span(bytes))}},
                            {"none", FloatTensor({}, {0, 7})}});

  ASSERT_TRUE(status.ok()) << status;
  const auto file = SafetensorsFile::Open(directory.File("t"));
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_EQ(file->tensors().size(), 4u);
  const TensorView& logits = file->tensors().at("logits");
  EXPECT_EQ(logits.dtype, StoredDtype::kF32);
  EXPECT_EQ(logits.shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(std::memcmp(logits.data.data(), floats.data(), 24), 0);
  std::vector<int64_t> ids(3);
  ASSERT_TRUE(ConvertToInt64(file->tensors().at("ids"), ids).ok());
  EXPECT_EQ(ids, (std::vector<int64_t>{7, -8, INT32_MIN}));
  EXPECT_EQ(file->tensors().at("bytes").shape, (std::vector<int64_t>{3, 1}));
  EXPECT_EQ(file->tensors().at("none").shape, (std::vector<int64_t>{0, 7}));
}

TEST(SafetensorsWriterTest, EveryTensorIsAlignedAndThereAreNoGaps) {
  const ScopedDirectory directory;
  const std::vector<uint8_t> bytes(8);
  TensorMap tensors;
  for (const auto& [name, dtype] :
       {std::pair{"a", StoredDtype::kU8}, std::pair{"b", StoredDtype::kBF16},
        std::pair{"c", StoredDtype::kF32}, std::pair{"d", StoredDtype::kI64}}) {
    tensors[name] = {
        .name = "",
        .dtype = dtype,
        .shape = {1},
        .data = std::as_bytes(std::span(bytes))
                    .first(static_cast<size_t>(DtypeBytes(dtype)))};
  }

  ASSERT_TRUE(WriteSafetensors(directory.File("t"), tensors).ok());

  const auto file = SafetensorsFile::Open(directory.File("t"));
  ASSERT_TRUE(file.ok()) << file.status();
  size_t data_bytes = 0;
  for (const auto& [name, tensor] : file->tensors()) {
    const auto address = reinterpret_cast<uintptr_t>(tensor.data.data());
    EXPECT_EQ(address % static_cast<size_t>(DtypeBytes(tensor.dtype)), 0u)
        << name;
    data_bytes += tensor.data.size();
  }
  EXPECT_EQ(data_bytes, 1u + 2u + 4u + 8u);
  // The last bytes of the file are the narrowest tensor's.
  EXPECT_EQ(std::filesystem::file_size(directory.File("t")) % 8, 7u);
}

TEST(SafetensorsWriterTest, ReplacesAFileAndLeavesNothingElse) {
  const ScopedDirectory directory;
  const std::vector<float> value = {3};
  directory.Write("t", "old");

  ASSERT_TRUE(
      WriteSafetensors(directory.File("t"), {{"w", FloatTensor(value, {1})}})
          .ok());

  EXPECT_TRUE(SafetensorsFile::Open(directory.File("t")).ok());
  EXPECT_EQ(NumFiles(directory), 1u);
}

TEST(SafetensorsWriterTest, AFailedWriteLeavesNothing) {
  const ScopedDirectory directory;
  const std::vector<float> value = {3};
  // A directory that is not empty cannot be replaced.
  std::filesystem::create_directories(directory.File("t") + "/inner");

  const absl::Status status =
      WriteSafetensors(directory.File("t"), {{"w", FloatTensor(value, {1})}});

  EXPECT_FALSE(status.ok());
  EXPECT_EQ(std::string(status.message()).find(directory.File("t") + ": "), 0u)
      << status;
  EXPECT_EQ(NumFiles(directory), 1u);
}

TEST(SafetensorsWriterTest, AMissingDirectoryIsNamed) {
  const ScopedDirectory directory;

  const absl::Status status = WriteSafetensors(directory.File("no/t"), {});

  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_NE(std::string(status.message()).find("no/t"), std::string::npos);
}

TEST(SafetensorsWriterTest, DataMustHaveTheSizeOfItsShape) {
  const ScopedDirectory directory;
  const std::vector<float> value = {3};
  const std::string path = directory.File("t");

  EXPECT_EQ(WriteSafetensors(path, {{"w", FloatTensor(value, {2})}}),
            absl::InvalidArgumentError(
                "tensor \"w\" of shape [2] has 4 bytes of data"));
  EXPECT_FALSE(WriteSafetensors(path, {{"w", FloatTensor(value, {-1})}}).ok());
  EXPECT_FALSE(
      WriteSafetensors(path, {{"w", FloatTensor({}, {int64_t{1} << 62})}})
          .ok());
  EXPECT_EQ(NumFiles(directory), 0u);
}

TEST(SafetensorsWriterTest, NamesMustBePossible) {
  const ScopedDirectory directory;
  const std::string path = directory.File("t");

  EXPECT_EQ(WriteSafetensors(path, {{"\xff", FloatTensor({}, {0})}}),
            absl::InvalidArgumentError("a tensor's name is not UTF-8"));
  EXPECT_EQ(WriteSafetensors(path, {{"__metadata__", FloatTensor({}, {0})}}),
            absl::InvalidArgumentError("a tensor is named __metadata__"));
}

}  // namespace
}  // namespace bole
