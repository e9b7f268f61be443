// Vectors of the reference tokenizers, and properties on real vocabularies. The
// larger vocabulary is not in the tree: its tests read it from the folder that
// BOLE_DATA_DIR names, and skip without.

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "common/tokenizer/nfc.h"
#include "common/tokenizer/streaming_decoder.h"
#include "common/tokenizer/tokenizer.h"
#include "common/tokenizer/utf8.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace bole {
namespace {

using Ids = std::vector<int32_t>;

constexpr char kDemoTokenizer[] = "models/demo/tokenizer.json";
constexpr char kDemoVectors[] = "tests/golden/demo/tokenizer.json";

std::unique_ptr<Tokenizer> LoadOrDie(const std::string& path) {
  absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer = Tokenizer::Load(path);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return tokenizer.ok() ? *std::move(tokenizer) : nullptr;
}

// `name` in the folder of larger test data; empty if it is not there.
std::string DataFile(const std::string& name) {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing changes the environment.
  const char* folder = std::getenv("BOLE_DATA_DIR");
  if (folder == nullptr || *folder == '\0') return "";
  const std::string path = std::string(folder) + "/tokenizer/" + name;
  return std::ifstream(path).good() ? path : "";
}

TEST(TokenizerGoldenTest, DemoVectorsEncodeAndDecode) {
  const auto tokenizer = LoadOrDie(kDemoTokenizer);
  ASSERT_NE(tokenizer, nullptr);
  std::ifstream file(kDemoVectors);
  const auto vectors = nlohmann::json::parse(file);

  ASSERT_GT(vectors.size(), 20u);
  for (const auto& vector : vectors) {
    const auto text = vector["text"].get<std::string>();
    const auto ids = vector["ids"].get<Ids>();
    const absl::StatusOr<Ids> encoded = tokenizer->Encode(text);
    ASSERT_TRUE(encoded.ok()) << encoded.status();
    EXPECT_EQ(*encoded, ids) << text;
    EXPECT_EQ(tokenizer->Decode(ids), vector["decoded"].get<std::string>());
  }
}

TEST(TokenizerGoldenTest, Qwen3VectorsEncode) {
  const std::string path = DataFile("qwen3/tokenizer.json");
  const std::string vectors = DataFile("qwen3_golden.jsonl");
  if (path.empty() || vectors.empty()) {
    GTEST_SKIP() << "needs tokenizer/qwen3 in BOLE_DATA_DIR";
  }
  const auto tokenizer = LoadOrDie(path);
  ASSERT_NE(tokenizer, nullptr);
  std::ifstream file(vectors);

  int num_vectors = 0;
  for (std::string line; std::getline(file, line); ++num_vectors) {
    const auto vector = nlohmann::json::parse(line);
    const auto text = vector["text"].get<std::string>();
    const absl::StatusOr<Ids> encoded = tokenizer->Encode(text);
    ASSERT_TRUE(encoded.ok()) << encoded.status();
    EXPECT_EQ(*encoded, vector["ids"].get<Ids>()) << text;
    EXPECT_EQ(tokenizer->Decode(*encoded), NormalizeNfc(text));
  }
  EXPECT_EQ(num_vectors, 830);
  EXPECT_EQ(tokenizer->num_ids(), 151669);
}

// Code points of all planes, and often of the ranges where rules apply.
std::string RandomText(std::mt19937& random) {
  constexpr std::pair<uint32_t, uint32_t> kRanges[] = {
      {0x20, 0x7E},     {0x09, 0x0D},     {0x20, 0x20},       {0x300, 0x36F},
      {0xA0, 0x24F},    {0x900, 0x97F},   {0x1100, 0x11FF},   {0x2000, 0x206F},
      {0x3040, 0x9FFF}, {0xAC00, 0xD7A3}, {0x1F300, 0x1FAFF}, {0, 0x10FFFF}};
  std::string text;
  const int size = static_cast<int>(random() % 40);
  for (int i = 0; i < size; ++i) {
    const auto [first, last] = kRanges[random() % std::size(kRanges)];
    const uint32_t code_point = first + random() % (last - first + 1);
    const bool is_surrogate = code_point >= 0xD800 && code_point < 0xE000;
    AppendCodePoint(is_surrogate ? 'x' : code_point, &text);
  }
  return text;
}

TEST(TokenizerGoldenTest, DecodeOfEncodeIsTheNormalizedText) {
  const auto tokenizer = LoadOrDie(kDemoTokenizer);
  ASSERT_NE(tokenizer, nullptr);
  std::mt19937 random(11);
  for (int round = 0; round < 3000; ++round) {
    SCOPED_TRACE(round);
    const std::string text = RandomText(random);

    const absl::StatusOr<Ids> ids = tokenizer->Encode(text);

    ASSERT_TRUE(ids.ok()) << ids.status();
    EXPECT_EQ(tokenizer->Decode(*ids), NormalizeNfc(text));
  }
}

TEST(TokenizerGoldenTest, StreamingEqualsTheDecodeOfRandomIds) {
  const auto tokenizer = LoadOrDie(kDemoTokenizer);
  ASSERT_NE(tokenizer, nullptr);
  std::mt19937 random(13);
  for (int round = 0; round < 500; ++round) {
    SCOPED_TRACE(round);
    Ids ids(random() % 100);
    for (int32_t& id : ids) id = static_cast<int32_t>(random() % 8200);

    StreamingDecoder decoder(*tokenizer);
    std::string streamed;
    for (const int32_t id : ids) streamed += decoder.Push(id);
    streamed += decoder.Finish();

    EXPECT_EQ(streamed, tokenizer->Decode(ids));
  }
}

TEST(TokenizerGoldenTest, AHundredKilobytesInOnePieceAreFast) {
  const auto tokenizer = LoadOrDie(kDemoTokenizer);
  ASSERT_NE(tokenizer, nullptr);
  for (const char* unit : {"a", " ", "the", "\n", "=", "\u4E2D", "\u0301"}) {
    SCOPED_TRACE(unit);
    std::string text;
    while (text.size() < 100'000) text += unit;
    const auto start = std::chrono::steady_clock::now();

    const absl::StatusOr<Ids> ids = tokenizer->Encode(text);

    ASSERT_TRUE(ids.ok()) << ids.status();
    EXPECT_EQ(tokenizer->Decode(*ids), text);
    // 30 ms when optimised; quadratic time would be minutes.
    EXPECT_LT(std::chrono::steady_clock::now() - start,
              std::chrono::seconds(20));
  }
}

}  // namespace
}  // namespace bole
