// CompactKv of the reference backend.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/attention.h"
#include "kernels/reference/attention.h"
#include "tests/kernels/attention_problem.h"
#include "tests/testing/matrices.h"
#include "tests/testing/random_forest.h"
#include "tests/testing/random_tree.h"

namespace bole::reference {
namespace {

using ::bole::testing::AttentionProblem;
using ::bole::testing::ChainParents;
using ::bole::testing::FillNormal;
using ::bole::testing::HostBatch;
using ::bole::testing::HostPath;
using ::bole::testing::PackTrees;
using ::bole::testing::Parents;
using ::bole::testing::RandomBatch;
using ::bole::testing::RandomPaths;
using ::bole::testing::RandomShape;
using ::bole::testing::SameBits;
using ::bole::testing::UniformInt;

constexpr int kLayers = 3;

// All pages are full, those that no request owns as well.
AttentionProblem MakeProblem(std::mt19937& rng, HostBatch batch) {
  AttentionProblem p(rng,
                     {.shape = RandomShape(rng),
                      .page_size = UniformInt(rng, 1, 9),
                      .num_layers = kLayers},
                     std::move(batch));
  FillNormal(rng, 1, p.k.span(0, p.k.size()));
  FillNormal(rng, 1, p.v.span(0, p.v.size()));
  return p;
}

CompactKvParams Params(AttentionProblem& p, const HostPath& path,
                       int num_layers) {
  return {.batch = p.batch.View(),
          .path = path.View(),
          .shape = p.shape,
          .pages = p.Pages(),
          .num_layers = num_layers};
}

// Copies entry `place` of a request's path from `before` to its new home.
void MoveEntry(AttentionProblem& before, int request, int row, int place,
               AttentionProblem& want, int num_layers) {
  const int committed = before.batch.committed[request];
  const int from = committed + before.batch.node[row];
  for (int layer = 0; layer < num_layers; ++layer) {
    for (int head = 0; head < before.shape.kv_heads; ++head) {
      std::ranges::copy(
          before.Key(layer, request, from, head),
          want.Key(layer, request, committed + place, head).begin());
      std::ranges::copy(
          before.Value(layer, request, from, head),
          want.Value(layer, request, committed + place, head).begin());
    }
  }
}

TEST(CompactKvTest, MovesThePathsAndNothingElse) {
  std::mt19937 rng(1);
  for (int round = 0; round < 200; ++round) {
    SCOPED_TRACE(round);
    AttentionProblem p = MakeProblem(rng, RandomBatch(rng, 30));
    AttentionProblem before = p;
    AttentionProblem want = p;
    const HostPath path = RandomPaths(rng, p.batch);
    const int num_layers = UniformInt(rng, 0, kLayers);
    for (int b = 0; b < p.batch.num_requests(); ++b) {
      const std::span<const int32_t> rows = path.rows(b);
      for (int place = 0; place < std::ssize(rows); ++place) {
        MoveEntry(before, b, rows[place], place, want, num_layers);
      }
    }

    CompactKv(Params(p, path, num_layers));

    EXPECT_TRUE(SameBits(p.k.all(), want.k.all()));
    EXPECT_TRUE(SameBits(p.v.all(), want.v.all()));
    EXPECT_TRUE(p.k.GuardsIntact() && p.v.GuardsIntact());
  }
}

TEST(CompactKvTest, APrefillChunkIsInPlaceAlready) {
  std::mt19937 rng(2);
  const std::vector<Parents> chains = {ChainParents(20), ChainParents(1)};
  HostBatch batch = PackTrees(chains, {.chains = true});
  batch.committed[0] = 5;
  AttentionProblem p = MakeProblem(rng, std::move(batch));
  const AttentionProblem before = p;
  const HostPath all = testing::MakePath(
      p.batch, std::vector<std::vector<int>>{testing::PathTo(chains[0], 19),
                                             testing::PathTo(chains[1], 0)});

  CompactKv(Params(p, all, kLayers));

  EXPECT_TRUE(SameBits(p.k.all(), before.k.all()));
  EXPECT_TRUE(SameBits(p.v.all(), before.v.all()));
}

}  // namespace
}  // namespace bole::reference
