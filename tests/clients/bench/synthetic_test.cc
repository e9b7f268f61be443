#include "clients/bench/synthetic.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

namespace bole::bench {
namespace {

constexpr uint32_t kVocabulary = 1000;

std::vector<uint32_t> Ids(const Segment& segment, uint64_t load_seed = 0) {
  std::vector<uint32_t> ids;
  AppendIds(segment, load_seed, kVocabulary, ids);
  return ids;
}

std::vector<uint32_t> PromptOf(const Turn& turn) {
  std::vector<uint32_t> ids;
  for (const Segment& segment : std::get<std::vector<Segment>>(turn.input)) {
    AppendIds(segment, 0, kVocabulary, ids);
  }
  return ids;
}

TEST(SyntheticTest, EqualSeedsHaveAPrefixInCommonWhateverTheirLengths) {
  const std::vector<uint32_t> shorter = Ids({.seed = 5, .length = 7});
  const std::vector<uint32_t> longer = Ids({.seed = 5, .length = 512});

  ASSERT_EQ(shorter.size(), 7u);
  EXPECT_TRUE(std::equal(shorter.begin(), shorter.end(), longer.begin()));
}

TEST(SyntheticTest, OtherSeedsGiveOtherIds) {
  EXPECT_NE(Ids({.seed = 5, .length = 8}), Ids({.seed = 6, .length = 8}));
  EXPECT_NE(Ids({.seed = 5, .length = 8}, 1), Ids({.seed = 5, .length = 8}, 2));
}

TEST(SyntheticTest, IdsCoverTheVocabularyAndNothingBeyond) {
  const std::vector<uint32_t> ids = Ids({.seed = 1, .length = 20000});

  EXPECT_LT(*std::max_element(ids.begin(), ids.end()), kVocabulary);
  EXPECT_EQ(std::set<uint32_t>(ids.begin(), ids.end()).size(), kVocabulary);
}

TEST(SyntheticTest, PromptsHaveTheirLengthsAndShareThePrefixAlone) {
  const Workload workload = MakeSynthetic({.num_sessions = 2,
                                           .input_tokens = 40,
                                           .output_tokens = 9,
                                           .shared_prefix = 16});

  const std::vector<uint32_t> a = PromptOf(workload.sessions[0].turns[0]);
  const std::vector<uint32_t> b = PromptOf(workload.sessions[1].turns[0]);

  ASSERT_EQ(a.size(), 40u);
  ASSERT_EQ(b.size(), 40u);
  EXPECT_TRUE(std::equal(a.begin(), a.begin() + 16, b.begin()));
  EXPECT_FALSE(std::equal(a.begin() + 16, a.begin() + 24, b.begin() + 16));
  EXPECT_EQ(workload.sessions[0].turns[0].output_tokens, 9);
}

TEST(SyntheticTest, SpreadLengthsStayWithinTheirShare) {
  const Workload workload = MakeSynthetic({.num_sessions = 500,
                                           .input_tokens = 100,
                                           .output_tokens = 10,
                                           .spread = 0.5});

  std::set<size_t> lengths;
  for (const Session& session : workload.sessions) {
    lengths.insert(PromptOf(session.turns[0]).size());
  }
  EXPECT_GE(*lengths.begin(), 50u);
  EXPECT_LE(*lengths.rbegin(), 150u);
  EXPECT_GT(lengths.size(), 50u);
}

TEST(SyntheticTest, ScaledLengthsKeepCommonPrefixes) {
  Workload workload = MakeSynthetic({.num_sessions = 2,
                                     .input_tokens = 40,
                                     .output_tokens = 3,
                                     .shared_prefix = 20});

  ScaleLengths(0.1, workload);

  const std::vector<uint32_t> a = PromptOf(workload.sessions[0].turns[0]);
  const std::vector<uint32_t> b = PromptOf(workload.sessions[1].turns[0]);
  ASSERT_EQ(a.size(), 4u);
  EXPECT_EQ(a[0], b[0]);
  EXPECT_EQ(a[1], b[1]);
  EXPECT_EQ(workload.sessions[0].turns[0].output_tokens, 1);
}

}  // namespace
}  // namespace bole::bench
