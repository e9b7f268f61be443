#include "worker_service/engine/row_batch_buffer.h"

#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "absl/status/status.h"
#include "common/ids.h"
#include "common/packed_forest.h"
#include "gtest/gtest.h"
#include "kernels/reference/reference_backend.h"
#include "kernels/row_batch.h"
#include "tests/testing/random_tree.h"
#include "worker_service/model/device_arrays.h"

namespace bole {
namespace {

using ::bole::testing::UniformInt;

using Ints = std::vector<int32_t>;

TEST(HostRowsTest, AChainIsNumberedFromItsFirstToken) {
  HostRows rows;

  rows.AddChain(Ints{7, 8, 9});
  rows.AddChain(Ints{});
  rows.AddChain(Ints{5});

  EXPECT_EQ(rows.num_rows(), 4);
  EXPECT_EQ(rows.first_row, (Ints{0, 3, 3, 4}));
  EXPECT_EQ(rows.request, (Ints{0, 0, 0, 2}));
  EXPECT_EQ(rows.node, (Ints{0, 1, 2, 0}));
  EXPECT_EQ(rows.parent, (Ints{-1, 0, 1, -1}));
  EXPECT_EQ(rows.depth, (Ints{0, 1, 2, 0}));
  EXPECT_EQ(rows.token, (Ints{7, 8, 9, 5}));
  EXPECT_EQ(rows.mask_words, 0);
}

TEST(HostRowsTest, AForestsNodesAreItsRows) {
  const NodeList tree = {.token = {7, 8, 9}, .parent = {kNoParent, 0, 0}};
  const NodeList root = {.token = {5}, .parent = {kNoParent}};
  const PackedForest forest =
      *BuildForest(std::vector<NodeList>{tree, {}, root});

  const HostRows rows = RowsOf(forest);

  EXPECT_EQ(rows.first_row, (Ints{0, 3, 3, 4}));
  EXPECT_EQ(rows.request, (Ints{0, 0, 0, 2}));
  EXPECT_EQ(rows.node, (Ints{0, 1, 2, 0}));
  EXPECT_EQ(rows.parent, (Ints{-1, 0, 0, -1}));
  EXPECT_EQ(rows.depth, (Ints{0, 1, 1, 0}));
  EXPECT_EQ(rows.token, (Ints{7, 8, 9, 5}));
  EXPECT_EQ(rows.mask_words, 1);
  EXPECT_EQ(rows.ancestors, (std::vector<uint32_t>{0b1, 0b11, 0b101, 0b1}));
}

// A buffer on the reference backend, and what it holds.
class Buffer {
 public:
  explicit Buffer(const RowBatchCapacity& capacity)
      : capacity_(capacity),
        backend_(/*num_threads=*/1),
        arrays_(backend_),
        buffer_(capacity, "rows", arrays_) {
    EXPECT_TRUE(arrays_.status().ok()) << arrays_.status();
  }

  void Upload(const HostRows& rows,
              const std::vector<HostSequence>& sequences) {
    const absl::Status status = buffer_.Upload(rows, sequences);
    EXPECT_TRUE(status.ok()) << status;
  }

  template <typename T>
  std::vector<T> Read(const T* device, int count) {
    std::vector<T> values(count);
    EXPECT_TRUE(
        backend_.Download(values.data(), device, count * sizeof(T)).ok());
    return values;
  }
  int32_t Count() { return Read(batch().rows.count, 1)[0]; }
  // The used elements of an array of the batch.
  Ints Rows(const int32_t* device) { return Read(device, Count()); }
  Ints FirstRow() {
    return Read(batch().first_row, capacity_.max_requests + 1);
  }
  std::vector<uint32_t> Ancestors() {
    return Read(batch().ancestors, Count() * capacity_.mask_words);
  }

  const RowBatch& batch() const { return buffer_.batch(); }
  const RowBatchBuffer& buffer() const { return buffer_; }

 private:
  RowBatchCapacity capacity_;
  ReferenceBackend backend_;
  DeviceArrays arrays_;
  RowBatchBuffer buffer_;
};

void ExpectRows(Buffer& buffer, const HostRows& rows) {
  const RowBatch& batch = buffer.batch();
  EXPECT_EQ(buffer.Count(), rows.num_rows());
  EXPECT_EQ(buffer.Rows(batch.request), rows.request);
  EXPECT_EQ(buffer.Rows(batch.node), rows.node);
  EXPECT_EQ(buffer.Rows(batch.parent), rows.parent);
  EXPECT_EQ(buffer.Rows(batch.depth), rows.depth);
  EXPECT_EQ(buffer.Rows(buffer.buffer().token()), rows.token);
}

TEST(RowBatchBufferTest, ForwardsRowsAndWhereTheirMemoryIs) {
  Buffer buffer(
      {.max_requests = 3, .max_rows = 6, .mask_words = 0, .max_pages = 4});
  HostRows rows;
  rows.AddChain(Ints{7, 8, 9});
  rows.AddChain(Ints{5});
  const std::vector<PageId> first = {PageId(9), PageId(2)};
  const std::vector<PageId> second = {PageId(4)};

  buffer.Upload(rows, {{.slot = 6, .committed = 64, .pages = first},
                       {.slot = 1, .committed = 0, .pages = second}});

  const RowBatch& batch = buffer.batch();
  ExpectRows(buffer, rows);
  EXPECT_EQ(batch.max_requests, 3);
  EXPECT_EQ(batch.rows.max, 6);
  EXPECT_EQ(batch.max_pages, 4);
  EXPECT_EQ(batch.mask_words, 0);
  // The third request is empty.
  EXPECT_EQ(buffer.FirstRow(), (Ints{0, 3, 4, 4}));
  EXPECT_EQ(buffer.Read(batch.slot, 2), (Ints{6, 1}));
  EXPECT_EQ(buffer.Read(batch.committed, 2), (Ints{64, 0}));
  EXPECT_EQ(buffer.Read(batch.page_table, 2), (Ints{9, 2}));
  EXPECT_EQ(buffer.Read(batch.page_table + 4, 1), (Ints{4}));
}

TEST(RowBatchBufferTest, AllRowsAreThePathOfABatchThatIsCommittedWhole) {
  Buffer buffer(
      {.max_requests = 2, .max_rows = 5, .mask_words = 0, .max_pages = 1});
  HostRows rows;
  rows.AddChain(Ints{7, 8, 9});
  rows.AddChain(Ints{5});

  buffer.Upload(rows, {});

  const RowPath path = buffer.buffer().all_rows();
  EXPECT_EQ(buffer.Read(path.first, 3), (Ints{0, 3, 4}));
  EXPECT_EQ(buffer.Read(path.row, 4), (Ints{0, 1, 2, 3}));
}

std::vector<NodeList> RandomLists(std::mt19937& rng, int max_nodes) {
  std::vector<NodeList> lists(4);
  for (NodeList& list : lists) {
    const int num_nodes = UniformInt(rng, 0, max_nodes);
    for (int i = 0; i < num_nodes; ++i) {
      list.token.push_back(UniformInt(rng, 0, 999));
      list.parent.push_back(UniformInt(rng, -1, i - 1));
    }
  }
  return lists;
}

// Bit `node` of a row of ancestors.
bool Bit(const std::vector<uint32_t>& ancestors, int words, int row, int node) {
  return ancestors[row * words + node / 32] >> (node % 32) & 1;
}

TEST(RowBatchBufferTest, MasksFillTheirWidthAndForgetTheRoundBefore) {
  constexpr int kWords = 4;
  std::mt19937 rng(1);
  Buffer buffer({.max_requests = 4,
                 .max_rows = 4 * 128,
                 .mask_words = kWords,
                 .max_pages = 1});
  for (int round = 0; round < 50; ++round) {
    SCOPED_TRACE(round);
    const int max_nodes = round % 2 == 0 ? 128 : 20;
    const PackedForest forest = *BuildForest(RandomLists(rng, max_nodes));

    buffer.Upload(RowsOf(forest), {});

    ExpectRows(buffer, RowsOf(forest));
    const std::vector<uint32_t> ancestors = buffer.Ancestors();
    for (int row = 0; row < forest.num_nodes(); ++row) {
      for (int node = 0; node < 32 * kWords; ++node) {
        const bool want = node < 32 * forest.mask_words &&
                          Bit(forest.ancestors, forest.mask_words, row, node);
        ASSERT_EQ(Bit(ancestors, kWords, row, node), want)
            << "row " << row << ", node " << node;
      }
    }
  }
}

// Arrays lie side by side: one that is too long would show in the next.
TEST(RowBatchBufferTest, HoldsItsCapacityInEveryArray) {
  constexpr int kRequests = 3;
  constexpr int kPages = 5;
  Buffer buffer({.max_requests = kRequests,
                 .max_rows = 7 * kRequests,
                 .mask_words = 1,
                 .max_pages = kPages});
  std::vector<NodeList> lists(kRequests);
  std::vector<std::vector<PageId>> pages(kRequests);
  std::vector<HostSequence> sequences;
  Ints page_table;
  for (int b = 0; b < kRequests; ++b) {
    for (int i = 0; i < 7; ++i) {
      lists[b].token.push_back(100 * b + i);
      lists[b].parent.push_back(i - 1);
    }
    for (int i = 0; i < kPages; ++i) {
      page_table.push_back(1000 + b * kPages + i);
      pages[b].emplace_back(page_table.back());
    }
    sequences.push_back(
        {.slot = 40 + b, .committed = 50 + b, .pages = pages[b]});
  }
  const PackedForest forest = *BuildForest(lists);

  buffer.Upload(RowsOf(forest), sequences);

  const RowBatch& batch = buffer.batch();
  ExpectRows(buffer, RowsOf(forest));
  EXPECT_EQ(buffer.FirstRow(), (Ints{0, 7, 14, 21}));
  EXPECT_EQ(buffer.Ancestors(), forest.ancestors);
  EXPECT_EQ(buffer.Read(batch.slot, 3), (Ints{40, 41, 42}));
  EXPECT_EQ(buffer.Read(batch.committed, 3), (Ints{50, 51, 52}));
  EXPECT_EQ(buffer.Read(batch.page_table, kRequests * kPages), page_table);
  Ints all_rows(21);
  std::iota(all_rows.begin(), all_rows.end(), 0);
  EXPECT_EQ(buffer.Read(buffer.buffer().all_rows().row, 21), all_rows);
}

TEST(RowBatchBufferTest, ARoundWithoutRowsIsEmpty) {
  Buffer buffer(
      {.max_requests = 2, .max_rows = 5, .mask_words = 1, .max_pages = 1});
  HostRows rows;
  rows.AddChain(Ints{7, 8, 9});
  buffer.Upload(rows, {});

  buffer.Upload(HostRows(), {});

  EXPECT_EQ(buffer.Count(), 0);
  EXPECT_EQ(buffer.FirstRow(), (Ints{0, 0, 0}));
}

TEST(RowBatchBufferTest, WithoutMemoryThereIsNoBatch) {
  ReferenceBackend backend(/*num_threads=*/1);
  DeviceArrays arrays(backend);
  arrays.Array<char>(int64_t{1} << 60, "too much");

  const RowBatchBuffer buffer(
      {.max_requests = 2, .max_rows = 5, .mask_words = 1, .max_pages = 1},
      "rows", arrays);

  EXPECT_TRUE(absl::IsResourceExhausted(arrays.status())) << arrays.status();
  EXPECT_EQ(buffer.batch().first_row, nullptr);
  EXPECT_EQ(buffer.token(), nullptr);
}

}  // namespace
}  // namespace bole
