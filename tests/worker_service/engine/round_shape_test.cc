#include "worker_service/engine/round_shape.h"

#include <algorithm>
#include <random>
#include <set>
#include <vector>

#include "common/draft_shape.h"
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

// A part's key has what its launches depend on, and nothing else.
TEST(RoundShapeTest, KeysTellShapesAndPartsApart) {
  using enum GraphPart;
  const RoundShape shape = ShapeOf(PlanOf({9, 3, 7}), kOptions);
  RoundShape other = shape;
  EXPECT_EQ(shape.Key(kVerify), other.Key(kVerify));
  EXPECT_NE(shape.Key(kVerify), shape.Key(kDraft));
  EXPECT_NE(shape.Key(kForward), shape.Key(kAccept));
  other.draft = DraftShape{4, 8};
  EXPECT_EQ(shape.Key(kVerify), other.Key(kVerify));
  EXPECT_NE(shape.Key(kDraft), other.Key(kDraft));
  other = shape;
  other.defers_draft = true;
  EXPECT_EQ(shape.Key(kVerify), other.Key(kVerify));
  EXPECT_NE(shape.Key(kDraft), other.Key(kDraft));
  other = shape;
  other.path_rows += 1;
  EXPECT_EQ(shape.Key(kVerify), other.Key(kVerify));
  EXPECT_NE(shape.Key(kDraft), other.Key(kDraft));
  other = shape;
  other.rows += 1;
  EXPECT_NE(shape.Key(kVerify), other.Key(kVerify));
  EXPECT_EQ(shape.Key(kDraft), other.Key(kDraft));
  other = shape;
  other.max_path += 1;
  EXPECT_NE(shape.Key(kVerify), other.Key(kVerify));
  other = shape;
  other.max_nodes_per_tree = 20;
  EXPECT_EQ(shape.Key(kVerify), other.Key(kVerify));
}

// Trees of later rounds are no larger than their budget, caps and draft allow,
// and so their masks need not be wider.
TEST(RoundShapeTest, ALeaseHasRoomForTheTreesThatThereCanBe) {
  StepPlan plan = PlanOf({9, 3});
  plan.draft = kOptions.max_draft;
  plan.lease = {.rounds = 2, .budget = 100, .max_nodes_per_tree = 128};
  EXPECT_EQ(ShapeOf(plan, kOptions).mask_words, 4);
  EXPECT_EQ(ShapeOf(plan, kOptions).rows, 128);
  plan.lease->budget = 40;
  EXPECT_EQ(ShapeOf(plan, kOptions).mask_words, 2);
  EXPECT_EQ(ShapeOf(plan, kOptions).rows, 64);
  plan.lease->bounds = {{.floor = 1, .cap = 9}, {.floor = 2, .cap = 20}};
  EXPECT_EQ(ShapeOf(plan, kOptions).max_nodes_per_tree, 20);
  EXPECT_EQ(ShapeOf(plan, kOptions).mask_words, 1);
  plan.draft = DraftShape{.top_k = 1, .depth = 3};
  EXPECT_EQ(ShapeOf(plan, kOptions).max_nodes_per_tree, 4);
  EXPECT_EQ(ShapeOf(plan, kOptions).rows, 16);
  plan.draft.reset();
  EXPECT_EQ(ShapeOf(plan, kOptions).max_nodes_per_tree, 1);
}

// What a scheduler with this profile asks for: trees no larger and no deeper
// than they may be, any of its drafts or none, and leases of any budget that
// leaves room for more than the roots.
StepPlan RandomPlan(std::mt19937& rng, const RoundProfile& profile,
                    const EngineOptions& options) {
  using testing::UniformInt;
  const int count = UniformInt(rng, 1, options.max_requests);
  const int most = profile.drafts.empty() ? 1 : profile.nodes_per_tree;
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
  StepPlan plan;
  plan.sequences.resize(count);
  plan.forest = *BuildForest(lists);
  const int num_drafts = static_cast<int>(profile.drafts.size());
  const int draft = UniformInt(rng, 0, num_drafts);
  if (draft < num_drafts) {
    plan.draft = profile.drafts[draft];
  } else {
    plan.defers_draft = profile.defers;
  }
  if (options.max_lease_rounds > 1 && UniformInt(rng, 0, 1) == 0) {
    const int largest = std::min(most * count, options.max_nodes);
    const int least = std::min(most > 1 ? count + 1 : count, largest);
    plan.lease = {.rounds = 2,
                  .budget = UniformInt(rng, least, largest),
                  .max_nodes_per_tree = most};
  }
  return plan;
}

// The graphs of random plans are those of the reachable shapes, and no others.
TEST(ReachableShapesTest, HaveTheKeysThatRoundsHave) {
  std::mt19937 rng(1);
  for (const bool time_phases : {false, true}) {
    for (const int nodes_per_tree : {1, 6, 40}) {
      SCOPED_TRACE(nodes_per_tree);
      const EngineOptions options{.max_requests = 3,
                                  .max_nodes = 70,
                                  .max_nodes_per_tree = nodes_per_tree,
                                  .max_draft = {.top_k = 4, .depth = 5},
                                  .max_lease_rounds = 4,
                                  .time_phases = time_phases};
      const RoundProfile profile =
          UsualProfile(options, /*has_drafter=*/nodes_per_tree > 1);
      std::set<GraphKey> expected;
      for (int i = 0; i < 20000; ++i) {
        const RoundShape shape =
            ShapeOf(RandomPlan(rng, profile, options), options);
        for (const GraphKey& key : KeysOf(shape, options)) expected.insert(key);
      }

      std::set<GraphKey> reachable;
      for (const RoundShape& shape : ReachableShapes(profile, options)) {
        const size_t before = reachable.size();
        const auto keys = KeysOf(shape, options);
        reachable.insert(keys.begin(), keys.end());
        EXPECT_GT(reachable.size(), before) << "adds nothing";
      }

      EXPECT_EQ(reachable, expected);
      EXPECT_EQ(std::ssize(reachable),
                GraphCapacity(options, /*has_drafter=*/nodes_per_tree > 1));
    }
  }
}

constexpr EngineOptions kLargeOptions{.max_requests = 32,
                                      .max_nodes = 1024,
                                      .max_nodes_per_tree = 128,
                                      .max_draft = {.top_k = 4, .depth = 8}};

TEST(ReachableShapesTest, AnyPolicyMayDraftAsOneOfAFewShapes) {
  const RoundProfile profile =
      UsualProfile(kLargeOptions, /*has_drafter=*/true);

  EXPECT_TRUE(profile.defers);
  EXPECT_EQ(profile.drafts,
            (std::vector<DraftShape>{{.top_k = 4, .depth = 8},
                                     {.top_k = 1, .depth = 3},
                                     {.top_k = 1, .depth = 5},
                                     {.top_k = 1, .depth = 8}}));
  EXPECT_TRUE(
      UsualProfile(kLargeOptions, /*has_drafter=*/false).drafts.empty());
  EngineOptions shallow = kLargeOptions;
  shallow.max_draft = {.top_k = 1, .depth = 3};
  EXPECT_EQ(UsualProfile(shallow, /*has_drafter=*/true).drafts,
            (std::vector<DraftShape>{{.top_k = 1, .depth = 3}}));
}

// At 12 ms a graph: a few seconds at the start of a worker.
TEST(ReachableShapesTest, AGpusGraphsAreFewHundred) {
  EXPECT_LE(GraphCapacity(kLargeOptions, /*has_drafter=*/true), 500);
  EXPECT_GT(GraphCapacity(kLargeOptions, /*has_drafter=*/true), 100);
}

TEST(ReachableShapesTest, UsualRoundsComeFirst) {
  const auto shapes = ReachableShapes(
      UsualProfile(kLargeOptions, /*has_drafter=*/true), kLargeOptions);

  ASSERT_FALSE(shapes.empty());
  EXPECT_EQ(shapes[0].requests, 1);
  EXPECT_EQ(shapes[0].rows, kDefaultTreeNodes);
  EXPECT_EQ(shapes[0].draft, kLargeOptions.max_draft);
}

}  // namespace
}  // namespace bole
