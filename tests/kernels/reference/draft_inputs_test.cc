// What a drafter's rows begin with, in one operator.
#include "kernels/draft_inputs.h"

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/reference/dense.h"
#include "tests/kernels/reference/host_matrix.h"
#include "tests/kernels/reference/spare_rows.h"
#include "tests/testing/activations.h"
#include "tests/testing/guarded_buffer.h"
#include "tests/testing/matrices.h"
#include "tests/testing/random_tree.h"

namespace bole::reference {
namespace {

using ::bole::testing::AsActivations;
using ::bole::testing::Count;
using ::bole::testing::ExpectNothingWrittenFrom;
using ::bole::testing::GuardedBuffer;
using ::bole::testing::HostMatrix;
using ::bole::testing::kSpareRows;
using ::bole::testing::NormalVector;
using ::bole::testing::RandomMatrix;
using ::bole::testing::RandomRows;
using ::bole::testing::Rows;
using ::bole::testing::SameBits;
using ::bole::testing::UniformInt;

TEST(DraftInputsTest, AreTheNormsOfAnEmbeddingAndOfAHiddenVector) {
  std::mt19937 rng(2);
  for (int round = 0; round < 30; ++round) {
    SCOPED_TRACE(round);
    const int32_t num_rows = UniformInt(rng, 0, 9);
    const int width = UniformInt(rng, 1, 40);
    const size_t size = width;
    const HostMatrix table = RandomMatrix(rng, 70, width);
    const GuardedBuffer<float> hidden = RandomRows(rng, 5, width);
    const std::vector<float> embedding_norm = NormalVector(rng, size);
    const std::vector<float> hidden_norm = NormalVector(rng, size);
    GuardedBuffer<int32_t> token(num_rows + kSpareRows);
    GuardedBuffer<int32_t> hidden_row(num_rows + kSpareRows);
    for (int i = 0; i < num_rows; ++i) {
      token[i] = UniformInt(rng, 0, 69);
      hidden_row[i] = UniformInt(rng, 0, 4);
    }
    GuardedBuffer<float> got = Rows(num_rows, 2 * width);
    GuardedBuffer<float> rows = Rows(num_rows, width);
    GuardedBuffer<float> want = Rows(num_rows, 2 * width);

    DraftInputs({.rows = Count(num_rows),
                 .width = width,
                 .epsilon = 1e-6f,
                 .token = token.data(),
                 .table = table.packed.get(),
                 .embedding_norm = embedding_norm.data(),
                 .hidden_row = hidden_row.data(),
                 .hidden = AsActivations(hidden.data()),
                 .hidden_norm = hidden_norm.data(),
                 .out = AsActivations(got.data())});

    RmsNormParams norm{.rows = Count(num_rows),
                       .width = width,
                       .epsilon = 1e-6f,
                       .x = AsActivations(rows.data()),
                       .weight = embedding_norm.data(),
                       .out = AsActivations(want.data()),
                       .out_stride = 2 * width,
                       .out_column = 0};
    Embed({.rows = Count(num_rows),
           .token = token.data(),
           .table = table.packed.get(),
           .out = AsActivations(rows.data())});
    RmsNorm(norm);
    GatherRows({.rows = Count(num_rows),
                .width = width,
                .index = hidden_row.data(),
                .x = AsActivations(hidden.data()),
                .out = AsActivations(rows.data())});
    norm.weight = hidden_norm.data();
    norm.out_column = width;
    RmsNorm(norm);
    const size_t written = num_rows * 2 * size;
    EXPECT_TRUE(SameBits(got.span(0, written), want.span(0, written)));
    ExpectNothingWrittenFrom(written, got);
  }
}

}  // namespace
}  // namespace bole::reference
