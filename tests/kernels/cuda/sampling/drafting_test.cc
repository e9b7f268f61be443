// The bookkeeping of drafting on the GPU against the reference: every integer
// and every bit of log_rho.
#include "kernels/drafting.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/draft_shape.h"
#include "gtest/gtest.h"
#include "tests/kernels/cuda/cuda_test.h"
#include "tests/kernels/cuda/device_copies.h"
#include "tests/testing/guarded_buffer.h"
#include "tests/testing/random_tree.h"

namespace bole::testing {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Bit by bit: what was not written is poison, which is NaN.
template <typename T>
void ExpectSameBits(const GuardedBuffer<T>& got, const GuardedBuffer<T>& want,
                    const std::string& what) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    ASSERT_EQ(std::memcmp(got.data() + i, want.data() + i, sizeof(T)), 0)
        << what << " " << i << ": " << got[i] << ", expected " << want[i];
  }
}

class DraftingTest : public CudaTest {};

INSTANTIATE_TEST_SUITE_P(Elements, DraftingTest,
                         ::testing::Values(ElementType::kFloat32), ElementName);

// The outputs of ExtendRows.
struct Extended {
  Extended(int requests, int rows)
      : next_committed(requests),
        num_rows(1),
        request(rows),
        node(rows),
        parent(rows),
        row_token(rows),
        hidden_row(rows),
        last_row(requests) {}

  GuardedBuffer<int32_t> next_committed, num_rows, request, node, parent,
      row_token, hidden_row, last_row;
};

void ExpectSame(const Extended& got, const Extended& want) {
  ExpectSameBits(got.next_committed, want.next_committed, "next_committed");
  ExpectSameBits(got.num_rows, want.num_rows, "num_rows");
  ExpectSameBits(got.request, want.request, "request");
  ExpectSameBits(got.node, want.node, "node");
  ExpectSameBits(got.parent, want.parent, "parent");
  ExpectSameBits(got.row_token, want.row_token, "row_token");
  ExpectSameBits(got.hidden_row, want.hidden_row, "hidden_row");
  ExpectSameBits(got.last_row, want.last_row, "last_row");
}

// The inputs of ExtendRows: a path through the rows of each request, now and
// then empty, now and then longer than a block has threads.
struct Paths {
  explicit Paths(std::mt19937& rng) {
    const int requests = UniformInt(rng, 1, 6);
    for (int b = 0; b < requests; ++b) {
      const int longest = UniformInt(rng, 0, 5) == 0 ? 1500 : 20;
      const int num_rows = UniformInt(rng, 0, 1) * UniformInt(rng, 0, longest);
      for (int i = 0; i < num_rows; ++i) {
        if (UniformInt(rng, 0, 3) > 0) {
          row.push_back(static_cast<int32_t>(token.size()));
        }
        token.push_back(UniformInt(rng, 0, 99999));
      }
      first.push_back(static_cast<int32_t>(row.size()));
      next_token.push_back(UniformInt(rng, 0, 5) > 0 ? UniformInt(rng, 0, 99999)
                                                     : kNoToken);
      committed.push_back(UniformInt(rng, 0, 99999));
    }
    num_extended[0] =
        UniformInt(rng, 0, 1) == 0 ? requests : UniformInt(rng, 0, requests);
  }

  int requests() const { return static_cast<int>(committed.size()); }

  std::vector<int32_t> first = {0};
  std::vector<int32_t> row, token, next_token, committed;
  std::vector<int32_t> num_extended = {0};
};

TEST_P(DraftingTest, ExtendRowsIsEqual) {
  for (int round = 0; round < 200; ++round) {
    SCOPED_TRACE(round);
    Paths in(rng_);
    const int max_rows =
        static_cast<int>(in.row.size()) + UniformInt(rng_, 0, 3);
    Extended want(in.requests(), max_rows);
    Extended got = want;
    const auto params = [&](const Paths& paths, auto&& place, Extended& out) {
      return ExtendRowsParams{.max_requests = paths.requests(),
                              .max_rows = max_rows,
                              .path = {place(paths.first), place(paths.row)},
                              .token = place(paths.token),
                              .next_token = place(paths.next_token),
                              .committed = place(paths.committed),
                              .num_extended = place(paths.num_extended),
                              .next_committed = place(out.next_committed),
                              .num_rows = place(out.num_rows),
                              .request = place(out.request),
                              .node = place(out.node),
                              .parent = place(out.parent),
                              .row_token = place(out.row_token),
                              .hidden_row = place(out.hidden_row),
                              .last_row = place(out.last_row)};
    };

    const absl::Status reference = reference_.ExtendRows(params(
        in, [](auto& host) { return host.data(); }, want));
    ASSERT_TRUE(reference.ok()) << reference;
    DeviceCopies device(*cuda_);
    const absl::Status run = cuda_->ExtendRows(params(
        in, [&](auto& host) { return device.Of(host); }, got));
    ASSERT_TRUE(run.ok()) << run;
    ASSERT_NO_FATAL_FAILURE(device.Fetch());

    ASSERT_NO_FATAL_FAILURE(ExpectSame(got, want));
  }
}

class StoreHiddenTest : public CudaTest {};

BOLE_FOR_EACH_ELEMENT(StoreHiddenTest);

// Paths longer than the ring among them, and widths of whole accesses and not.
TEST_P(StoreHiddenTest, RingsAreEqual) {
  for (int round = 0; round < 100; ++round) {
    SCOPED_TRACE(round);
    Paths in(rng_);
    const int num_slots = in.requests() + UniformInt(rng_, 0, 2);
    const int ring = UniformInt(rng_, 1, 64);
    const int most = round % 3 == 0 ? ring : UniformInt(rng_, 1, ring);
    const int width = round % 2 == 0 ? 64 : UniformInt(rng_, 1, 40);
    std::vector<int32_t> slot(num_slots);
    std::iota(slot.begin(), slot.end(), 0);
    std::shuffle(slot.begin(), slot.end(), rng_);
    std::vector<int32_t> request(in.token.size());
    for (int b = 0; b < in.requests(); ++b) {
      for (int i = in.first[b]; i < in.first[b + 1]; ++i) {
        request[in.row[i]] = b;
      }
    }
    GuardedBuffer<float> hidden(in.token.size() * width);
    GuardedBuffer<float> want(static_cast<size_t>(num_slots) * ring * width);
    std::normal_distribution<float> normal(0, 1);
    for (size_t i = 0; i < hidden.size(); ++i) hidden[i] = normal(rng_);
    for (size_t i = 0; i < want.size(); ++i) want[i] = -1;
    GuardedBuffer<float> got = want;
    const auto params = [&](auto&& place, auto&& activations,
                            GuardedBuffer<float>& kept) {
      RowBatch batch{};
      batch.max_requests = in.requests();
      batch.request = place(request);
      batch.slot = place(slot);
      batch.committed = place(in.committed);
      return StoreHiddenParams{
          .batch = batch,
          .path = {place(in.first), place(in.row)},
          .max_path_rows =
              static_cast<int>(in.row.size()) + UniformInt(rng_, 1, 3),
          .width = width,
          .ring = ring,
          .most = most,
          .hidden = activations(hidden),
          .kept = activations(kept)};
    };

    DeviceCopies device(*cuda_);
    const absl::Status run = cuda_->StoreHidden(
        params([&](auto& host) { return device.Of(host); },
               [&](auto& host) { return device.Activations(host); }, got));
    ASSERT_TRUE(run.ok()) << run;
    ASSERT_NO_FATAL_FAILURE(device.Fetch());
    const auto as_activations = [](GuardedBuffer<float>& host) {
      return reinterpret_cast<Activation*>(host.data());
    };
    const absl::Status reference = reference_.StoreHidden(
        params([](auto& host) { return host.data(); }, as_activations, want));
    ASSERT_TRUE(reference.ok()) << reference;

    ASSERT_NO_FATAL_FAILURE(ExpectSameBits(got, want, "kept"));
  }
}

class GatherMatrixTest : public CudaTest {
 protected:
  // Rows `token` of a matrix.
  std::vector<float> Embedded(const WeightMatrix* table,
                              const std::vector<int32_t>& token) {
    const std::vector<int32_t> count = {static_cast<int32_t>(token.size())};
    GuardedBuffer<float> out(token.size() * table->columns);
    DeviceCopies device(*cuda_);
    Activation* const on_device = device.Activations(out);
    const absl::Status run = cuda_->Embed({.rows = {device.Of(count), count[0]},
                                           .token = device.Of(token),
                                           .table = table,
                                           .out = on_device});
    EXPECT_TRUE(run.ok()) << run;
    device.Fetch();
    return {out.data(), out.data() + out.size()};
  }
};

BOLE_FOR_EACH_ELEMENT(GatherMatrixTest);

TEST_P(GatherMatrixTest, HasTheRowsInOrder) {
  constexpr int kRows = 300;
  constexpr int kColumns = 72;
  std::vector<float> content(kRows * kColumns);
  std::normal_distribution<float> normal(0, 1);
  for (float& x : content) x = normal(rng_);
  const WeightMatrix* matrix = LoadRows(*cuda_, kRows, kColumns, content);
  std::vector<int32_t> rows;
  rows.reserve(200);
  for (int i = 0; i < 200; ++i) rows.push_back(UniformInt(rng_, 0, kRows - 1));

  const auto gathered = cuda_->GatherMatrix(*matrix, rows);

  ASSERT_TRUE(gathered.ok()) << gathered.status();
  EXPECT_EQ((*gathered)->rows, 200);
  std::vector<int32_t> all(rows.size());
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(Embedded(*gathered, all), Embedded(matrix, rows));
}

// What GrowTrees keeps from level to level.
struct Trees {
  Trees(const DraftShape& shape, int requests, int words)
      : token(static_cast<size_t>(requests) * shape.num_candidates()),
        parent(token.size()),
        log_rho(token.size()),
        frontier(static_cast<size_t>(requests) * shape.top_k),
        row_token(frontier.size()),
        row_parent(frontier.size()),
        hidden_row(frontier.size()),
        ancestors(frontier.size() * words) {}

  GuardedBuffer<int32_t> token, parent;
  GuardedBuffer<float> log_rho;
  GuardedBuffer<int32_t> frontier, row_token, row_parent, hidden_row;
  GuardedBuffer<uint32_t> ancestors;
};

void ExpectSame(const Trees& got, const Trees& want) {
  ExpectSameBits(got.token, want.token, "token");
  ExpectSameBits(got.parent, want.parent, "parent");
  ExpectSameBits(got.log_rho, want.log_rho, "log_rho");
  ExpectSameBits(got.frontier, want.frontier, "frontier");
  ExpectSameBits(got.row_token, want.row_token, "row_token");
  ExpectSameBits(got.row_parent, want.row_parent, "row_parent");
  ExpectSameBits(got.hidden_row, want.hidden_row, "hidden_row");
  ExpectSameBits(got.ancestors, want.ancestors, "ancestors");
}

// Log probabilities, best first in every group of k. A third of the groups are
// all equal, and some are certain, so that ties and -inf are common.
void FillTop(std::mt19937& rng, int top_k, std::span<int32_t> token,
             std::span<float> log_prob) {
  for (size_t i = 0; i < token.size(); i += top_k) {
    const int kind = UniformInt(rng, 0, 5);
    float own = kind == 2 ? 0.0f : -0.3f;
    for (int j = 0; j < top_k; ++j) {
      token[i + j] = UniformInt(rng, 0, 99999);
      log_prob[i + j] = own;
      if (kind == 2) own = -kInfinity;
      if (kind > 2) own -= 0.001f * static_cast<float>(UniformInt(rng, 0, 900));
    }
  }
}

struct Growth {
  DraftShape shape;
  int max_requests;
  int used_requests;
  int mask_words;
};

class GrowTreesTest : public DraftingTest {
 protected:
  // Runs one level with both on the same inputs.
  void Grow(const Growth& growth, int level, Trees& want, Trees& got) {
    GuardedBuffer<int32_t> count(1);
    count[0] = growth.used_requests;
    const int k = growth.shape.top_k;
    const size_t group = level == 0 ? k : static_cast<size_t>(k) * k;
    GuardedBuffer<int32_t> top_token(growth.max_requests * group);
    GuardedBuffer<float> top_log_prob(top_token.size());
    const size_t used = growth.used_requests * group;
    FillTop(rng_, k, top_token.span(0, used), top_log_prob.span(0, used));
    const auto params = [&](auto&& place, Trees& trees) {
      return GrowTreesParams{.max_requests = growth.max_requests,
                             .requests = {place(count), growth.max_requests},
                             .shape = growth.shape,
                             .level = level,
                             .mask_words = growth.mask_words,
                             .top_token = place(top_token),
                             .top_log_prob = place(top_log_prob),
                             .trees = {place(trees.token), place(trees.parent),
                                       place(trees.log_rho)},
                             .frontier = place(trees.frontier),
                             .row_token = place(trees.row_token),
                             .row_parent = place(trees.row_parent),
                             .hidden_row = place(trees.hidden_row),
                             .ancestors = place(trees.ancestors)};
    };

    const absl::Status reference = reference_.GrowTrees(
        params([](auto& host) { return host.data(); }, want));
    ASSERT_TRUE(reference.ok()) << reference;
    DeviceCopies device(*cuda_);
    const absl::Status run = cuda_->GrowTrees(
        params([&](auto& host) { return device.Of(host); }, got));
    ASSERT_TRUE(run.ok()) << run;
    ASSERT_NO_FATAL_FAILURE(device.Fetch());
    ASSERT_NO_FATAL_FAILURE(ExpectSame(got, want));
  }

  void GrowAll(const Growth& growth) {
    Trees want(growth.shape, growth.max_requests, growth.mask_words);
    Trees got = want;
    for (int level = 0; level < growth.shape.depth; ++level) {
      SCOPED_TRACE(::testing::Message()
                   << "level " << level << " of " << growth.shape.depth
                   << ", top_k " << growth.shape.top_k << ", "
                   << growth.used_requests << " of " << growth.max_requests
                   << " requests");
      ASSERT_NO_FATAL_FAILURE(Grow(growth, level, want, got));
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Elements, GrowTreesTest,
                         ::testing::Values(ElementType::kFloat32), ElementName);

TEST_P(GrowTreesTest, EveryLevelIsEqual) {
  for (int round = 0; round < 60; ++round) {
    SCOPED_TRACE(round);
    const DraftShape shape = {.top_k = UniformInt(rng_, 1, 6),
                              .depth = UniformInt(rng_, 1, 8)};
    const int max_requests = UniformInt(rng_, 1, 4);

    ASSERT_NO_FATAL_FAILURE(
        GrowAll({.shape = shape,
                 .max_requests = max_requests,
                 .used_requests = UniformInt(rng_, 0, max_requests),
                 .mask_words = shape.num_draft_nodes() / 32 + 1 + round % 2}));
  }
}

TEST_P(GrowTreesTest, TheLargestShapeIsEqual) {
  const DraftShape shape = {.top_k = kMaxDraftTopK, .depth = kMaxDraftDepth};

  ASSERT_NO_FATAL_FAILURE(
      GrowAll({.shape = shape,
               .max_requests = 3,
               .used_requests = 2,
               .mask_words = shape.num_draft_nodes() / 32 + 1}));
}

TEST_P(GrowTreesTest, WiderThanIsCompiledIsAnError) {
  GrowTreesParams params = {};
  params.max_requests = 1;
  params.shape = {.top_k = kMaxDraftTopK + 1, .depth = 1};

  const absl::Status status = cuda_->GrowTrees(params);

  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
}

}  // namespace
}  // namespace bole::testing
