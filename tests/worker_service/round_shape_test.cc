#include "worker_service/round_shape.h"

#include <algorithm>
#include <optional>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "common/packed_forest.h"
#include "gtest/gtest.h"
#include "tests/testing/random_tree.h"

namespace bole {
namespace {

TEST(BucketTest, RequestsArePowersOfTwoAndNoMoreThanTheMost) {
  EXPECT_EQ(RequestBucket(1, 24), 1);
  EXPECT_EQ(RequestBucket(3, 24), 4);
  EXPECT_EQ(RequestBucket(8, 24), 8);
  EXPECT_EQ(RequestBucket(17, 24), 24);
  EXPECT_EQ(RequestBucket(24, 24), 24);
}

TEST(BucketTest, RowsFitAndWasteLessThanHalf) {
  for (const int max : {1, 100, 500, 2048}) {
    int before = 0;
    for (int count = 1; count <= max; ++count) {
      const int bucket = RowBucket(count, max);
      EXPECT_GE(bucket, count);
      EXPECT_LE(bucket, max);
      EXPECT_LT(bucket, 2 * count);
      EXPECT_GE(bucket, before) << "at " << count;
      EXPECT_EQ(RowBucket(bucket, max), bucket);
      before = bucket;
    }
  }
}

TEST(BucketTest, ListsAreAllBucketsOnce) {
  for (const int max : {1, 5, 64, 100, 500}) {
    std::set<int> rows;
    std::set<int> requests;
    for (int count = 1; count <= max; ++count) {
      rows.insert(RowBucket(count, max));
      requests.insert(RequestBucket(count, max));
    }
    EXPECT_EQ(RowBuckets(max), std::vector<int>(rows.begin(), rows.end()));
    EXPECT_EQ(RequestBuckets(max),
              std::vector<int>(requests.begin(), requests.end()));
  }
}

// One chain for each length.
StepPlan PlanOf(const std::vector<int>& lengths) {
  std::vector<NodeList> lists;
  for (const int length : lengths) {
    NodeList list;
    for (int i = 0; i < length; ++i) {
      list.token.push_back(i);
      list.parent.push_back(i - 1);
    }
    lists.push_back(list);
  }
  StepPlan plan;
  plan.sequences.resize(lengths.size());
  plan.forest = *BuildForest(lists);
  return plan;
}

constexpr EngineOptions kOptions{.max_requests = 12,
                                 .max_nodes = 500,
                                 .max_nodes_per_tree = 128,
                                 .max_draft = {.top_k = 4, .depth = 8}};

TEST(RoundShapeTest, LoneRootsAreADecode) {
  const RoundShape shape = ShapeOf(PlanOf({1, 1, 1, 1, 1}), kOptions);

  EXPECT_TRUE(shape.is_decode);
  EXPECT_EQ(shape.requests, 8);
  EXPECT_EQ(shape.rows, 8);
  EXPECT_EQ(shape.mask_words, 1);
  EXPECT_EQ(shape.path_rows, 8);
}

TEST(RoundShapeTest, PathsAreNoLongerThanADraftIsDeep) {
  const RoundShape shape = ShapeOf(PlanOf({9, 3, 7}), kOptions);

  EXPECT_FALSE(shape.is_decode);
  EXPECT_EQ(shape.requests, 4);
  EXPECT_EQ(shape.rows, 32);
  EXPECT_EQ(shape.max_path, 9);
  EXPECT_EQ(shape.path_rows, 32);
  EXPECT_EQ(ShapeOf(PlanOf({9}), kOptions).path_rows, 16);
  EXPECT_EQ(ShapeOf(PlanOf({3}), kOptions).path_rows, 4);
}

TEST(RoundShapeTest, ATreeDeeperThanDraftsHasRoomForItsPath) {
  const RoundShape shape = ShapeOf(PlanOf({120, 1}), kOptions);

  EXPECT_EQ(shape.rows, 128);
  EXPECT_EQ(shape.mask_words, 4);
  EXPECT_EQ(shape.max_path, 128);
  EXPECT_EQ(shape.path_rows, 128);
}

TEST(RoundShapeTest, KeysTellShapesAndPartsApart) {
  using enum GraphPart;
  const RoundShape shape = ShapeOf(PlanOf({9, 3, 7}), kOptions);
  RoundShape other = shape;
  EXPECT_EQ(shape.Key(kFirstRound), other.Key(kFirstRound));
  EXPECT_NE(shape.Key(kFirstRound), shape.Key(kNextRound));
  other.draft = DraftShape{4, 8};
  EXPECT_NE(shape.Key(kFirstRound), other.Key(kFirstRound));
  other = shape;
  other.path_rows += 1;
  EXPECT_NE(shape.Key(kFirstRound), other.Key(kFirstRound));
  other = shape;
  other.max_path += 1;
  EXPECT_NE(shape.Key(kFirstRound), other.Key(kFirstRound));
}

// Only the rounds that choose their forest depend on a lease.
TEST(RoundShapeTest, TheFirstRoundOfALeaseIsThatOfAPlanWithoutOne) {
  using enum GraphPart;
  const RoundShape shape = ShapeOf(PlanOf({9, 3, 7}), kOptions);
  RoundShape leased = shape;
  leased.max_nodes_per_tree = 20;
  EXPECT_EQ(shape.Key(kFirstRound), leased.Key(kFirstRound));
  EXPECT_NE(shape.Key(kNextRound), leased.Key(kNextRound));
}

// What a scheduler with this profile asks for: trees no larger and no deeper
// than they may be, and leases of as many nodes as there may be.
StepPlan RandomPlan(std::mt19937& rng, const RoundProfile& profile,
                    const EngineOptions& options) {
  using testing::UniformInt;
  const int count = UniformInt(rng, 1, options.max_requests);
  const int most = profile.draft ? profile.nodes_per_tree : 1;
  int left = options.max_nodes - count;
  const bool is_small = UniformInt(rng, 0, 1) == 0;
  std::vector<NodeList> lists(count);
  for (NodeList& list : lists) {
    const int largest = is_small ? std::min(most, 3) : most;
    const int extra = std::min(UniformInt(rng, 1, largest) - 1, left);
    left -= extra;
    list = {.token = {1}, .parent = {-1}};
    std::vector<int> depth = {0};
    for (int i = 0; i < extra; ++i) {
      int parent = UniformInt(rng, 0, i);
      while (depth[parent] >= options.max_draft.depth) --parent;
      list.token.push_back(1);
      list.parent.push_back(parent);
      depth.push_back(depth[parent] + 1);
    }
  }
  StepPlan plan{.draft = profile.draft};
  plan.sequences.resize(count);
  plan.forest = *BuildForest(lists);
  if (options.max_lease_rounds > 1 && UniformInt(rng, 0, 1) == 0) {
    plan.lease = {.rounds = 2,
                  .budget = std::min(most * count, options.max_nodes),
                  .max_nodes_per_tree = most};
  }
  return plan;
}

std::pair<GraphKey, int> Identity(const RoundShape& shape) {
  return {shape.Key(GraphPart::kNextRound), shape.max_nodes_per_tree};
}

// The shapes of random plans are reachable, and no others are.
TEST(ReachableShapesTest, AreThoseThatRoundsHave) {
  std::mt19937 rng(1);
  for (const int lease_rounds : {1, 4}) {
    for (const int nodes_per_tree : {1, 6, 40}) {
      SCOPED_TRACE(nodes_per_tree);
      const EngineOptions options{.max_requests = 3,
                                  .max_nodes = 70,
                                  .max_nodes_per_tree = 64,
                                  .max_draft = {.top_k = 4, .depth = 5},
                                  .max_lease_rounds = lease_rounds};
      const RoundProfile profile{
          .draft = nodes_per_tree > 1
                       ? std::optional(DraftShape{.top_k = 4, .depth = 5})
                       : std::nullopt,
          .nodes_per_tree = nodes_per_tree};
      std::set<std::pair<GraphKey, int>> expected;
      for (int i = 0; i < 20000; ++i) {
        expected.insert(
            Identity(ShapeOf(RandomPlan(rng, profile, options), options)));
      }

      std::set<std::pair<GraphKey, int>> reachable;
      for (const RoundShape& shape : ReachableShapes(profile, options)) {
        EXPECT_TRUE(reachable.insert(Identity(shape)).second) << "twice";
      }

      EXPECT_EQ(reachable, expected);
    }
  }
}

TEST(ReachableShapesTest, TheCapacityHoldsThoseOfAnyTreeSize) {
  for (const int max_requests : {1, 8, 32}) {
    EngineOptions options{.max_requests = max_requests,
                          .max_nodes = 512,
                          .max_nodes_per_tree = 128,
                          .max_draft = {.top_k = 4, .depth = 8}};
    for (const bool time_phases : {false, true}) {
      options.time_phases = time_phases;
      const int capacity = GraphCapacity(options, /*has_drafter=*/true);
      for (int nodes = 1; nodes <= 128; ++nodes) {
        const auto shapes = ReachableShapes(
            {.draft = options.max_draft, .nodes_per_tree = nodes}, options);
        EXPECT_LE(NumGraphs(shapes, options), capacity) << nodes;
      }
    }
  }
}

TEST(ReachableShapesTest, FullRoundsComeFirst) {
  const EngineOptions options{.max_requests = 4,
                              .max_nodes = 512,
                              .max_nodes_per_tree = 128,
                              .max_draft = {.top_k = 4, .depth = 8}};

  const auto shapes =
      ReachableShapes(UsualProfile(options, /*has_drafter=*/true), options);

  ASSERT_FALSE(shapes.empty());
  EXPECT_EQ(shapes[0].requests, 1);
  EXPECT_EQ(shapes[0].rows, kDefaultTreeNodes);
  EXPECT_EQ(shapes[0].max_nodes_per_tree, kDefaultTreeNodes);
}

}  // namespace
}  // namespace bole
