// Prefill in chunks against the recurrence, and against itself cut elsewhere.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "common/thread_pool.h"
#include "gtest/gtest.h"
#include "kernels/reference/gdn_core.h"
#include "tests/kernels/gdn_oracle.h"
#include "tests/kernels/gdn_problem.h"
#include "tests/testing/matrices.h"
#include "tests/testing/random_forest.h"
#include "tests/testing/random_tree.h"

namespace bole::reference {
namespace {

using ::bole::testing::ChainParents;
using ::bole::testing::Decay;
using ::bole::testing::ErrorAnalysis;
using ::bole::testing::ExtractHead;
using ::bole::testing::GdnProblem;
using ::bole::testing::HeadProblem;
using ::bole::testing::HeadSolution;
using ::bole::testing::HostBatch;
using ::bole::testing::kFloatRoundoff;
using ::bole::testing::PackTrees;
using ::bole::testing::Parents;
using ::bole::testing::RelativeRmsError;
using ::bole::testing::SameBits;
using ::bole::testing::UniformInt;

constexpr int kGrid = 64;
// Bounds the error of outputs and states against the recurrence or each other.
// A chunk's outputs are at most some 4e-7 off (GdnVerifyTest), which its state
// passes on decayed; a lost row or decay would be off by 1e-2 and more.
constexpr double kRmsTolerance = 2e-6;

GdnProblem MakeChains(std::mt19937& rng, const std::vector<int>& lengths,
                      const std::vector<int>& committed) {
  std::vector<Parents> trees;
  trees.reserve(lengths.size());
  for (const int length : lengths) trees.push_back(ChainParents(length));
  HostBatch batch =
      PackTrees(trees, {.chains = true, .spare_rows = 3, .spare_requests = 1});
  testing::CommitSomething(rng, static_cast<int>(lengths.size()) + 2, batch);
  std::ranges::copy(committed, batch.committed.data());
  return GdnProblem(rng,
                    {.shape = {.key_heads = 2,
                               .value_heads = 2 * UniformInt(rng, 1, 2),
                               .key_dim = UniformInt(rng, 1, 40),
                               .value_dim = UniformInt(rng, 1, 40),
                               .conv_taps = 4},
                     .num_layers = 2,
                     .decay = static_cast<Decay>(UniformInt(rng, 0, 2)),
                     .key_correlation = UniformInt(rng, 0, 9) / 10.0f},
                    std::move(batch));
}

// Runs the rows of request 0 in pieces that end at the given rows.
void PrefillInPieces(GdnProblem& p, int layer, const std::vector<int>& ends) {
  ThreadPool pool(2);
  int first = 0;
  for (const int end : ends) {
    const std::vector<Parents> piece = {ChainParents(end - first)};
    HostBatch batch = PackTrees(piece, {.chains = true});
    batch.slot[0] = p.batch.slot[0];
    batch.committed[0] = p.batch.committed[0] + first;
    GdnPrefill(p.CoreOfRows(layer, first, batch), pool);
    first = end;
  }
}

// Some of the rows in [1, num_rows) that `allowed` holds for, then num_rows.
template <typename Allowed>
std::vector<int> RandomEnds(std::mt19937& rng, int num_rows, Allowed allowed) {
  std::vector<int> ends;
  for (int row = 1; row < num_rows; ++row) {
    if (allowed(row) && UniformInt(rng, 0, 1) == 0) ends.push_back(row);
  }
  ends.push_back(num_rows);
  return ends;
}

std::vector<float> HeadOutput(const GdnProblem& p, int request, int head) {
  std::vector<float> out;
  for (int row = p.batch.first_row[request];
       row < p.batch.first_row[request + 1]; ++row) {
    const auto values = p.Out(row, head);
    out.insert(out.end(), values.begin(), values.end());
  }
  return out;
}

void ExpectMatchesRecurrence(const GdnProblem& before, const GdnProblem& after,
                             int layer, int request, int head) {
  const HeadProblem h = ExtractHead(before, layer, request, head);
  const ErrorAnalysis analysis(h);
  const HeadSolution& want = analysis.exact();
  const std::vector<double> scale = analysis.Blocks();
  const std::vector<float> got = HeadOutput(after, request, head);
  // Every chunk adds the roundings of its state to the 4 units of one solve.
  const double roundoffs = 4 + static_cast<double>(h.num_rows) / kGrid;
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_LE(std::abs(got[i] - want.o[i]),
              roundoffs * kFloatRoundoff * scale[i] + 1e-37)
        << i;
  }
  const std::span<const double> state(
      want.states.end() - static_cast<ptrdiff_t>(h.state.size()),
      want.states.end());
  EXPECT_LE(RelativeRmsError(got, want.o), kRmsTolerance);
  EXPECT_LE(RelativeRmsError(after.HeadState(request, layer, head), state),
            kRmsTolerance);
}

TEST(GdnPrefillTest, IsTheRecurrence) {
  ThreadPool pool(2);
  std::mt19937 rng(1);
  for (int round = 0; round < 25; ++round) {
    SCOPED_TRACE(round);
    const int length = UniformInt(rng, 1, 200);
    const GdnProblem before =
        MakeChains(rng, {length, 0, UniformInt(rng, 1, 70)},
                   {round % 3 == 0 ? 0 : UniformInt(rng, 1, 200), 5, 0});
    GdnProblem after = before;

    GdnPrefill(after.Core(1), pool);

    for (const int request : {0, 2}) {
      for (int head = 0; head < before.shape.value_heads; ++head) {
        ExpectMatchesRecurrence(before, after, 1, request, head);
      }
    }
    EXPECT_TRUE(SameBits(after.HeadState(0, 0, 0), before.HeadState(0, 0, 0)));
    EXPECT_TRUE(after.GuardsIntact());
  }
}

TEST(GdnPrefillTest, CutOnTheGridHasTheBitsOfTheWhole) {
  ThreadPool pool(2);
  std::mt19937 rng(2);
  for (int round = 0; round < 30; ++round) {
    SCOPED_TRACE(round);
    const int length = UniformInt(rng, 1, 400);
    const int committed = round % 3 == 0 ? 0 : UniformInt(rng, 1, 200);
    GdnProblem whole = MakeChains(rng, {length}, {committed});
    GdnProblem cut = whole;

    GdnPrefill(whole.Core(0), pool);
    PrefillInPieces(cut, 0, RandomEnds(rng, length, [&](int row) {
                      return (committed + row) % kGrid == 0;
                    }));

    EXPECT_TRUE(SameBits(cut.out.all(), whole.out.all()));
    EXPECT_TRUE(SameBits(cut.state.all(), whole.state.all()));
  }
}

TEST(GdnPrefillTest, CutAnywhereIsTheSameToRounding) {
  ThreadPool pool(2);
  std::mt19937 rng(3);
  for (int round = 0; round < 30; ++round) {
    SCOPED_TRACE(round);
    const int length = UniformInt(rng, 1, 200);
    const int committed = round % 3 == 0 ? 0 : UniformInt(rng, 1, 200);
    GdnProblem whole = MakeChains(rng, {length}, {committed});
    GdnProblem cut = whole;

    GdnPrefill(whole.Core(0), pool);
    PrefillInPieces(cut, 0, RandomEnds(rng, length, [](int) { return true; }));

    for (int head = 0; head < whole.shape.value_heads; ++head) {
      EXPECT_LE(RelativeRmsError(HeadOutput(cut, 0, head),
                                 HeadOutput(whole, 0, head)),
                kRmsTolerance);
      EXPECT_LE(RelativeRmsError(cut.HeadState(0, 0, head),
                                 whole.HeadState(0, 0, head)),
                kRmsTolerance);
    }
  }
}

}  // namespace
}  // namespace bole::reference
