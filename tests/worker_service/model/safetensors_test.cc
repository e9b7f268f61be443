#include "worker_service/model/safetensors.h"

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "tests/worker_service/model/files.h"

namespace bole {
namespace {

constexpr std::string_view kDemo =
    "models/demo/model-00001-of-00002.safetensors";

absl::StatusOr<TensorMap> Parse(std::string_view file) {
  return ParseSafetensors(std::as_bytes(std::span(file)));
}

// The error of a file with this header and `data_bytes` bytes of data.
std::string ErrorOf(std::string_view header, size_t data_bytes = 16) {
  const std::string file =
      RawSafetensors(header, std::string(data_bytes, '\0'));
  const absl::Status status = Parse(file).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << header;
  return std::string(status.message());
}

// The error of a file with one tensor "w" and sixteen bytes of data.
std::string ErrorOfTensor(std::string_view entry) {
  return ErrorOf("{\"w\": " + std::string(entry) + "}");
}

TEST(SafetensorsTest, FindsNamesShapesAndBytes) {
  const std::string file = RawSafetensors(
      R"({"__metadata__": {"format": "pt"},
          "b": {"dtype": "I32", "shape": [2], "data_offsets": [1, 9]},
          "a": {"dtype": "BF16", "shape": [1, 3], "data_offsets": [9, 15]},
          "scalar": {"dtype": "U8", "shape": [], "data_offsets": [0, 1]},
          "none": {"dtype": "F32", "shape": [0, 5], "data_offsets": [9, 9]}}
        )",
      std::string("\x07\x01\0\0\0\xff\xff\xff\xff\x80\x3f\0\xc0\0\0", 15));

  const absl::StatusOr<TensorMap> tensors = Parse(file);

  ASSERT_TRUE(tensors.ok()) << tensors.status();
  ASSERT_EQ(tensors->size(), 4u);
  const TensorView& a = tensors->at("a");
  EXPECT_EQ(a.name, "a");
  EXPECT_EQ(a.dtype, StoredDtype::kBF16);
  EXPECT_EQ(a.shape, (std::vector<int64_t>{1, 3}));
  std::vector<float> floats(3);
  ASSERT_TRUE(ConvertToFloat(a, floats).ok());
  EXPECT_EQ(floats, (std::vector<float>{1, -2, 0}));
  std::vector<int64_t> integers(2);
  ASSERT_TRUE(ConvertToInt64(tensors->at("b"), integers).ok());
  EXPECT_EQ(integers, (std::vector<int64_t>{1, -1}));
  EXPECT_EQ(tensors->at("scalar").num_elements(), 1);
  EXPECT_EQ(tensors->at("none").num_elements(), 0);
}

TEST(SafetensorsTest, AFileMayHoldNoTensor) {
  const absl::StatusOr<TensorMap> tensors = Parse(RawSafetensors("{}", ""));

  ASSERT_TRUE(tensors.ok()) << tensors.status();
  EXPECT_TRUE(tensors->empty());
}

TEST(SafetensorsTest, TheHeaderMustFitTheFile) {
  EXPECT_EQ(Parse("1234567").status(),
            absl::InvalidArgumentError("has 7 bytes, expected at least 8 for "
                                       "the header's length"));
  for (const uint64_t length : {uint64_t{3}, uint64_t{1} << 40, UINT64_MAX}) {
    std::string file = RawSafetensors("{}", "");
    file.replace(0, 8, reinterpret_cast<const char*>(&length), 8);
    const absl::Status status = Parse(file).status();
    EXPECT_EQ(status.message(),
              "the header's length is " + std::to_string(length) +
                  ", but 2 bytes follow and 100000000 are allowed");
  }
}

TEST(SafetensorsTest, TheHeaderMustBeAnObjectOfObjects) {
  EXPECT_EQ(ErrorOf("[]"), "the header is not a JSON object");
  EXPECT_EQ(ErrorOf("{\"w\": 1}"), "tensor \"w\": is not a JSON object");
  EXPECT_NE(ErrorOf("{\"w\": "), "");
  EXPECT_NE(ErrorOf(""), "");
  EXPECT_EQ(ErrorOf(std::string(100'000, '[')),
            "header: JSON: nested deeper than 3");
}

TEST(SafetensorsTest, ANameTwiceIsAnError) {
  EXPECT_EQ(
      ErrorOf(R"({"w": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]},
                  "w": {"dtype": "U8", "shape": [1], "data_offsets": [1, 2]}})"),
      "header: JSON: key twice in one object: w");
}

TEST(SafetensorsTest, TheDtypeMustBeKnown) {
  EXPECT_EQ(
      ErrorOfTensor(R"({"dtype": "F4", "shape": [1], "data_offsets": [0, 1]})"),
      "tensor \"w\": unknown dtype \"F4\"");
  EXPECT_EQ(ErrorOfTensor(R"({"dtype": 5, "shape": [], "data_offsets": [0]})"),
            "tensor \"w\": dtype is missing or not a string");
}

TEST(SafetensorsTest, ShapesAreNaturalNumbers) {
  for (const char* shape : {"[-1]", "[1.0]", "\"2\"", "2", "[null]",
                            "[9223372036854775808]", "[1e3]", "{}"}) {
    EXPECT_EQ(ErrorOfTensor(std::string(R"({"dtype": "U8", "shape": )") +
                            shape + R"(, "data_offsets": [0, 1]})"),
              "tensor \"w\": shape is not a list of integers >= 0")
        << shape;
  }
}

TEST(SafetensorsTest, OffsetsMustBeARangeOfTheData) {
  for (const char* offsets :
       {"[0, 17]", "[4, 3]", "[17, 17]", "[0, 9223372036854775807]",
        "[9223372036854775807, 1]"}) {
    const std::string error =
        ErrorOfTensor(std::string(R"({"dtype": "U8", "shape": [1],)") +
                      R"("data_offsets": )" + offsets + "}");
    EXPECT_EQ(error, std::string("tensor \"w\": data_offsets ") + offsets +
                         " are not a range in 16 bytes");
  }
  for (const char* offsets : {"[0]", "[0, 1, 2]", "[-1, 1]", "[0, 0.5]", "7",
                              "[0, 18446744073709551615]"}) {
    const std::string error =
        ErrorOfTensor(std::string(R"({"dtype": "U8", "shape": [1],)") +
                      R"("data_offsets": )" + offsets + "}");
    EXPECT_EQ(error,
              "tensor \"w\": data_offsets is not a pair of integers >= 0");
  }
}

TEST(SafetensorsTest, TheSizeMustBeTheShapes) {
  EXPECT_EQ(ErrorOfTensor(
                R"({"dtype": "F32", "shape": [3], "data_offsets": [0, 16]})"),
            "tensor \"w\": shape [3] of F32 needs 12 bytes, data_offsets hold "
            "16");
}

TEST(SafetensorsTest, AnOverflowingShapeIsNotASmallOne) {
  // 2^62 * 4 bytes is 0 in 64 bits.
  EXPECT_EQ(ErrorOfTensor(R"({"dtype": "F32", "shape": [4611686018427387904],
                              "data_offsets": [0, 0]})"),
            "tensor \"w\": shape [4611686018427387904] of F32 needs too many "
            "bytes, data_offsets hold 0");
}

TEST(SafetensorsTest, TensorsMustNotShareBytes) {
  EXPECT_EQ(
      ErrorOf(R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
                  "b": {"dtype": "F32", "shape": [2], "data_offsets": [4, 12]},
                  "c": {"dtype": "F32", "shape": [1],
                        "data_offsets": [12, 16]}})"),
      "tensor \"b\": shares bytes with tensor \"a\"");
}

TEST(SafetensorsTest, AHostileNameIsCutAndEscaped) {
  const std::string error =
      ErrorOf("{\"\\n" + std::string(5000, 'a') + "\": 1}");

  EXPECT_LT(error.size(), 200u);
  EXPECT_EQ(error.find('\n'), std::string::npos);
}

TEST(SafetensorsTest, OpenReadsAFileAndNamesItInErrors) {
  const absl::StatusOr<SafetensorsFile> demo =
      SafetensorsFile::Open(std::string(kDemo));
  ASSERT_TRUE(demo.ok()) << demo.status();
  EXPECT_EQ(demo->tensors().size(), 52u);
  EXPECT_EQ(
      demo->tensors().at("model.language_model.embed_tokens.weight").shape,
      (std::vector<int64_t>{8192, 256}));

  const ScopedDirectory directory;
  const std::string bad = directory.Write("bad", RawSafetensors("7", ""));
  EXPECT_EQ(
      SafetensorsFile::Open(bad).status(),
      absl::InvalidArgumentError(bad + ": the header is not a JSON object"));
}

TEST(SafetensorsTest, EveryTruncationOfAFileIsAnError) {
  const std::string file = RawSafetensors(
      R"({"w": {"dtype": "U8", "shape": [9], "data_offsets": [0, 9]}})",
      "123456789");

  ASSERT_TRUE(Parse(file).ok());
  for (size_t size = 0; size < file.size(); ++size) {
    EXPECT_FALSE(Parse(std::string_view(file).substr(0, size)).ok()) << size;
  }
}

TEST(SafetensorsTest, ADamagedHeaderNeverReachesOutsideTheFile) {
  const std::string file = RawSafetensors(
      R"({"a": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]},
          "b": {"dtype": "I64", "shape": [1], "data_offsets": [16, 24]}})",
      std::string(24, 'x'));
  std::mt19937 random(7);

  for (int round = 0; round < 5000; ++round) {
    std::string damaged = file;
    for (int i = 0; i < 2; ++i) {
      damaged[random() % damaged.size()] = static_cast<char>(random() % 256);
    }
    const absl::StatusOr<TensorMap> tensors = Parse(damaged);
    if (!tensors.ok()) continue;
    const auto* begin = reinterpret_cast<const std::byte*>(damaged.data());
    for (const auto& [name, tensor] : *tensors) {
      EXPECT_GE(tensor.data.data(), begin) << round;
      EXPECT_LE(tensor.data.data() + tensor.data.size(), begin + damaged.size())
          << round;
    }
  }
}

}  // namespace
}  // namespace bole
