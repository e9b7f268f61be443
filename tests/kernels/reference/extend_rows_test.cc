#include "kernels/reference/extend_rows.h"

#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/random_tree.h"

namespace bole::reference {
namespace {

using ::bole::testing::UniformInt;

constexpr int32_t kUntouched = -7777;

// Outputs with room for `spare` rows more than the paths have.
struct ExtendBatch {
  ExtendBatch(const std::vector<std::vector<int32_t>>& paths,
              const std::vector<int32_t>& token, int spare)
      : num_requests(static_cast<int>(paths.size())), token(token) {
    for (int b = 0; b < num_requests; ++b) {
      row.insert(row.end(), paths[b].begin(), paths[b].end());
      first.push_back(static_cast<int32_t>(row.size()));
      next_token.push_back(1000 + b);
      committed.push_back(10 * b);
    }
    max_rows = static_cast<int>(row.size()) + spare;
    for (auto* out : {&request, &node, &parent, &row_token, &hidden_row}) {
      out->assign(max_rows, kUntouched);
    }
    last_row.assign(num_requests, kUntouched);
    num_extended = num_requests;
    next_committed.assign(num_requests, kUntouched);
  }

  void Run() {
    ExtendRows({.max_requests = num_requests,
                .max_rows = max_rows,
                .path = {first.data(), row.data()},
                .token = token.data(),
                .next_token = next_token.data(),
                .committed = committed.data(),
                .num_extended = &num_extended,
                .next_committed = next_committed.data(),
                .num_rows = &num_rows,
                .request = request.data(),
                .node = node.data(),
                .parent = parent.data(),
                .row_token = row_token.data(),
                .hidden_row = hidden_row.data(),
                .last_row = last_row.data()});
  }

  int num_requests;
  int32_t num_extended;
  int max_rows;
  std::vector<int32_t> token, first = {0}, row, next_token, committed;
  int32_t num_rows = kUntouched;
  std::vector<int32_t> request, node, parent, row_token, hidden_row, last_row,
      next_committed;
};

TEST(ExtendRowsTest, TokensMoveOneToTheLeftOfTheirHiddenVectors) {
  // Rows 0 .. 6 carry tokens 70 .. 76; request 1 accepted 2 - 4 - 5.
  ExtendBatch batch({{0}, {2, 4, 5}}, {70, 71, 72, 73, 74, 75, 76},
                    /*spare=*/2);

  batch.Run();

  using Ints = std::vector<int32_t>;
  EXPECT_EQ(batch.num_rows, 4);
  EXPECT_EQ(batch.request, (Ints{0, 1, 1, 1, kUntouched, kUntouched}));
  EXPECT_EQ(batch.node, (Ints{0, 0, 1, 2, kUntouched, kUntouched}));
  EXPECT_EQ(batch.parent, (Ints{-1, -1, 0, 1, kUntouched, kUntouched}));
  EXPECT_EQ(batch.row_token,
            (Ints{1000, 74, 75, 1001, kUntouched, kUntouched}));
  EXPECT_EQ(batch.hidden_row, (Ints{0, 2, 4, 5, kUntouched, kUntouched}));
  EXPECT_EQ(batch.last_row, (Ints{0, 3}));
  EXPECT_EQ(batch.next_committed, (Ints{1, 13}));
}

TEST(ExtendRowsTest, NoTokenAfterAPathCountsAsTokenZero) {
  ExtendBatch batch({{0}, {1}}, {70, 71}, /*spare=*/0);
  batch.next_token[0] = kNoToken;

  batch.Run();

  EXPECT_EQ(batch.row_token, (std::vector<int32_t>{0, 1001}));
}

TEST(ExtendRowsTest, ARequestWithoutAPathHasNoRows) {
  ExtendBatch batch({{}, {1}, {}}, {70, 71}, /*spare=*/0);

  batch.Run();

  EXPECT_EQ(batch.num_rows, 1);
  EXPECT_EQ(batch.request, (std::vector<int32_t>{1}));
  EXPECT_EQ(batch.last_row, (std::vector<int32_t>{kUntouched, 0, kUntouched}));
  EXPECT_EQ(batch.next_committed, (std::vector<int32_t>{0, 11, 20}));
}

TEST(ExtendRowsTest, OnlyTheFirstRequestsAreExtended) {
  ExtendBatch batch({{0}, {1, 2}, {3}}, {70, 71, 72, 73}, /*spare=*/0);
  batch.num_extended = 1;

  batch.Run();

  using Ints = std::vector<int32_t>;
  EXPECT_EQ(batch.num_rows, 1);
  EXPECT_EQ(batch.request, (Ints{0, kUntouched, kUntouched, kUntouched}));
  EXPECT_EQ(batch.last_row, (Ints{0, kUntouched, kUntouched}));
  EXPECT_EQ(batch.next_committed, (Ints{1, 10, 20}));
}

// Random tokens of target rows, and a path through the rows of each request.
struct RandomPaths {
  explicit RandomPaths(std::mt19937& rng) : paths(UniformInt(rng, 1, 5)) {
    for (std::vector<int32_t>& path : paths) {
      const int num_rows = UniformInt(rng, 0, 20);
      for (int i = 0; i < num_rows; ++i) {
        const auto row = static_cast<int32_t>(token.size());
        token.push_back(UniformInt(rng, 0, 999));
        if (UniformInt(rng, 0, 1)) path.push_back(row);
      }
    }
  }

  std::vector<std::vector<int32_t>> paths;
  std::vector<int32_t> token;
};

// Slot p of the drafter pairs the hidden vector at p with the token at p + 1.
// Checks the rows of request b, which begin at first_row.
void ExpectPairs(const ExtendBatch& batch, const RandomPaths& random, int b,
                 int first_row) {
  const std::vector<int32_t>& path = random.paths[b];
  // The text of the path: after its entry j comes entry j + 1.
  std::vector<int32_t> text;
  text.reserve(path.size() + 1);
  for (const int32_t row : path) text.push_back(random.token[row]);
  text.push_back(batch.next_token[b]);
  for (int j = 0; j < std::ssize(path); ++j) {
    const int row = first_row + j;
    EXPECT_EQ(batch.request[row], b);
    EXPECT_EQ(batch.node[row], j);
    EXPECT_EQ(batch.parent[row], j - 1);
    EXPECT_EQ(batch.hidden_row[row], path[j]);
    EXPECT_EQ(batch.row_token[row], text[j + 1]);
  }
  const int end = first_row + static_cast<int>(path.size());
  EXPECT_EQ(batch.last_row[b], path.empty() ? kUntouched : end - 1);
  EXPECT_EQ(batch.next_committed[b], batch.committed[b] + end - first_row);
}

TEST(ExtendRowsTest, EverySlotPairsAVectorWithTheTokenAfterIt) {
  std::mt19937 rng(1);
  for (int round = 0; round < 500; ++round) {
    SCOPED_TRACE(round);
    const RandomPaths random(rng);
    ExtendBatch batch(random.paths, random.token, UniformInt(rng, 0, 3));

    batch.Run();

    int row = 0;
    for (int b = 0; b < batch.num_requests; ++b) {
      ExpectPairs(batch, random, b, row);
      row += static_cast<int>(random.paths[b].size());
    }
    EXPECT_EQ(batch.num_rows, row);
  }
}

}  // namespace
}  // namespace bole::reference
