#include "worker_service/round_shape.h"

#include <vector>

#include "common/packed_forest.h"
#include "gtest/gtest.h"

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

TEST(BucketTest, RowsAreFineWhereRowsCostTime) {
  EXPECT_EQ(RowBucket(65, 2048), 96);
  EXPECT_EQ(RowBucket(97, 2048), 128);
  EXPECT_EQ(RowBucket(129, 2048), 192);
  EXPECT_EQ(RowBucket(257, 2048), 384);
  EXPECT_EQ(RowBucket(1025, 2048), 1152);
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
  const RoundShape shape = ShapeOf(PlanOf({9, 3, 7}), kOptions);
  RoundShape other = shape;
  EXPECT_EQ(shape.Key(0), other.Key(0));
  EXPECT_NE(shape.Key(0), shape.Key(1));
  other.draft = DraftShape{4, 8};
  EXPECT_NE(shape.Key(0), other.Key(0));
  other = shape;
  other.path_rows += 1;
  EXPECT_NE(shape.Key(0), other.Key(0));
  other = shape;
  other.max_path += 1;
  EXPECT_NE(shape.Key(0), other.Key(0));
}

}  // namespace
}  // namespace bole
