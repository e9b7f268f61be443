#include "common/tokenizer/bpe.h"

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/check.h"
#include "gtest/gtest.h"

namespace bole {
namespace {

using ByteIds = std::array<std::optional<int32_t>, 256>;
using Ids = std::vector<int32_t>;

// The id of a byte is the byte.
ByteIds AllBytes() {
  ByteIds ids;
  for (int byte = 0; byte < 256; ++byte) ids[byte] = byte;
  return ids;
}

Ids EncodeOrDie(const Bpe& bpe, std::string_view piece) {
  Ids ids;
  BOLE_CHECK(bpe.Encode(piece, &ids).ok());
  return ids;
}

// The definition: find the lowest rank, merge its leftmost pair, repeat.
Ids EncodeByDefinition(const std::vector<BpeMerge>& merges,
                       std::string_view piece) {
  std::map<std::pair<int32_t, int32_t>, int> rank;
  for (size_t i = 0; i < merges.size(); ++i) {
    rank[{merges[i].left, merges[i].right}] = static_cast<int>(i);
  }
  Ids ids(piece.begin(), piece.end());
  while (true) {
    std::optional<std::pair<int, size_t>> best;  // Rank, position.
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      const auto rule = rank.find({ids[i], ids[i + 1]});
      if (rule == rank.end()) continue;
      const std::pair<int, size_t> found(rule->second, i);
      if (!best || found < *best) best = found;
    }
    if (!best) return ids;
    ids[best->second] = merges[best->first].merged;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(best->second) + 1);
  }
}

TEST(BpeTest, MergesByRankAndThenFromTheLeft) {
  const Bpe bpe(AllBytes(),
                {{'b', 'c', 256}, {'a', 'b', 257}, {'a', 'a', 258}});

  EXPECT_EQ(EncodeOrDie(bpe, "abc"), (Ids{'a', 256}));
  EXPECT_EQ(EncodeOrDie(bpe, "abd"), (Ids{257, 'd'}));
  EXPECT_EQ(EncodeOrDie(bpe, "aaa"), (Ids{258, 'a'}));
  EXPECT_EQ(EncodeOrDie(bpe, "x"), (Ids{'x'}));
  EXPECT_EQ(EncodeOrDie(bpe, ""), Ids{});
}

TEST(BpeTest, OfAPairThatComesTwiceTheLaterRankCounts) {
  const Bpe bpe(AllBytes(),
                {{'a', 'b', 256}, {'b', 'c', 257}, {'a', 'b', 256}});

  EXPECT_EQ(EncodeOrDie(bpe, "abc"), (Ids{'a', 257}));
}

TEST(BpeTest, AByteWithoutATokenIsAnError) {
  ByteIds bytes = AllBytes();
  bytes[0x0A] = std::nullopt;
  const Bpe bpe(bytes, {});

  Ids ids;
  const absl::Status status = bpe.Encode("a\nb", &ids);

  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "the vocabulary has no token for byte 0x0a");
}

TEST(BpeTest, EqualsTheDefinitionOnRandomMerges) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE(round);
    std::vector<int32_t> symbols = {0, 1, 2};
    std::vector<BpeMerge> merges;
    for (int32_t merged = 256; merged < 286; ++merged) {
      const int32_t left = symbols[random() % symbols.size()];
      const int32_t right = symbols[random() % symbols.size()];
      merges.push_back({left, right, merged});
      symbols.push_back(merged);
    }
    std::string piece(1 + random() % 60, '\0');
    for (char& byte : piece) byte = static_cast<char>(random() % 3);

    EXPECT_EQ(EncodeOrDie(Bpe(AllBytes(), merges), piece),
              EncodeByDefinition(merges, piece));
  }
}

TEST(BpeTest, AMegabyteInOnePieceTakesNoQuadraticTime) {
  std::vector<BpeMerge> merges = {{'a', 'a', 256}};
  for (int32_t id = 256; id < 270; ++id) merges.push_back({id, id, id + 1});
  const Bpe bpe(AllBytes(), merges);
  const auto start = std::chrono::steady_clock::now();

  const Ids ids = EncodeOrDie(bpe, std::string(1 << 20, 'a'));

  EXPECT_EQ(ids, Ids(1 << 5, 270));  // 2^20 bytes in tokens of 2^15.
  // Quadratic would be an hour.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::minutes(1));
}

}  // namespace
}  // namespace bole
