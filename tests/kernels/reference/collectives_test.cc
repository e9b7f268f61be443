// What ranks compute together, on reference backends that are threads of this
// process.
#include "kernels/collectives.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "kernels/add_and_project.h"
#include "kernels/backend.h"
#include "kernels/communicator.h"
#include "kernels/dense.h"
#include "kernels/matrix_source.h"
#include "kernels/reference/reference_backend.h"
#include "tests/testing/activations.h"
#include "tests/testing/matrices.h"
#include "tests/worker_service/ranks/on_ranks.h"

namespace bole {
namespace {

using testing::AsActivations;
using testing::NormalVector;

constexpr int32_t kRows = 3;
constexpr int kMaxRows = 5;  // The last two must stay as they are.
constexpr int kWidth = 24;
constexpr float kEpsilon = 1e-6f;
constexpr size_t kSize = size_t{kMaxRows} * kWidth;
constexpr size_t kUsed = size_t{kRows} * kWidth;

void OnRanks(int n, const std::function<void(int, ReferenceBackend&)>& body) {
  testing::OnRanks(n, [&body](std::unique_ptr<Communicator> own) {
    const int rank = own->rank().index;
    ReferenceBackend backend(/*num_threads=*/1, std::move(own));
    body(rank, backend);
  });
}

std::vector<float> Numbers(uint32_t seed, size_t size = kSize,
                           float deviation = 1) {
  std::mt19937 rng(seed);
  return NormalVector(rng, size, deviation);
}

// residual += the rows in use of `addend`; returns the norm, and `out` where no
// rows are in use.
std::vector<float> AddAndNorm(std::vector<float>& residual,
                              const std::vector<float>& addend,
                              const std::vector<float>& weight,
                              std::vector<float> out) {
  for (size_t i = 0; i < kUsed; ++i) residual[i] += addend[i];
  ReferenceBackend backend(/*num_threads=*/1);
  EXPECT_TRUE(backend
                  .RmsNorm({.rows = {&kRows, kMaxRows},
                            .width = kWidth,
                            .epsilon = kEpsilon,
                            .x = AsActivations(residual.data()),
                            .weight = weight.data(),
                            .out = AsActivations(out.data()),
                            .out_stride = kWidth,
                            .out_column = 0})
                  .ok());
  return out;
}

TEST(CollectivesTest, PartialSumsAreAddedInTheOrderOfTheRanksOnEveryRank) {
  const std::vector<float> weight = Numbers(100, kWidth);
  for (const int n : {1, 2, 4}) {
    SCOPED_TRACE(n);
    std::vector<float> sum = Numbers(0);
    for (int r = 1; r < n; ++r) {
      const std::vector<float> part = Numbers(r);
      for (size_t i = 0; i < kSize; ++i) sum[i] += part[i];
    }
    std::vector<float> want_residual = Numbers(200);
    const std::vector<float> want_out =
        AddAndNorm(want_residual, sum, weight, Numbers(300));

    OnRanks(n, [&](int rank, ReferenceBackend& backend) {
      const std::vector<float> partial = Numbers(rank);
      std::vector<float> residual = Numbers(200);
      std::vector<float> out = Numbers(300);
      const absl::Status status =
          backend.AllReduceAddNorm({.rows = {&kRows, kMaxRows},
                                    .width = kWidth,
                                    .epsilon = kEpsilon,
                                    .partial = AsActivations(partial.data()),
                                    .residual = AsActivations(residual.data()),
                                    .weight = weight.data(),
                                    .out = AsActivations(out.data())});
      EXPECT_TRUE(status.ok()) << status;
      EXPECT_TRUE(testing::SameBits(residual, want_residual));
      EXPECT_TRUE(testing::SameBits(out, want_out));
    });
  }
}

TEST(CollectivesTest, ColumnsOfAllRanksBecomeWholeRows) {
  const std::vector<int> widths = {3, 0, 2, 1};
  const std::vector<float> want = {0, 1, 2, 20, 21, 30, 3,  4,  5,  22, 23, 31,
                                   6, 7, 8, 24, 25, 32, -1, -1, -1, -1, -1, -1};
  OnRanks(4, [&](int rank, ReferenceBackend& backend) {
    std::vector<float> values(want.size(), -1);
    for (int i = 0; i < kRows * widths[rank]; ++i) {
      values[i] = static_cast<float>(10 * rank + i);
    }
    const absl::Status status = backend.AllGather(
        {.rows = {&kRows, 4}, .widths = widths, .values = values.data()});
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(values, want);
  });
}

TEST(CollectivesTest, OneRankGathersItsOwnColumns) {
  const int width = 2;
  std::vector<float> values = {1, 2, 3, 4, 5, 6};
  const std::vector<float> want = values;
  ReferenceBackend backend(/*num_threads=*/1);

  EXPECT_TRUE(backend
                  .AllGather({.rows = {&kRows, kRows},
                              .widths = {&width, 1},
                              .values = values.data()})
                  .ok());

  EXPECT_EQ(values, want);
}

// A product whose inner dimension is cut, with the norm after it.
struct CutProduct {
  std::vector<float> x = Numbers(1, size_t{kMaxRows} * 32);
  std::vector<float> weight = Numbers(2, size_t{kWidth} * 32, 0.2f);
  std::vector<float> norm = Numbers(3, kWidth);

  // Columns first .. first + count - 1 of each row of 32.
  static std::vector<float> Columns(const std::vector<float>& rows, int first,
                                    int count) {
    std::vector<float> part;
    for (size_t row = 0; row < rows.size(); row += 32) {
      part.insert(part.end(), rows.begin() + row + first,
                  rows.begin() + row + first + count);
    }
    return part;
  }

  // What a rank has afterwards.
  struct Result {
    std::vector<float> residual = Numbers(4);
    std::vector<float> out = Numbers(5);
  };
  Result Run(int rank, int n, Backend& backend) const {
    const int count = 32 / n;
    const std::vector<float> own_x = Columns(x, rank * count, count);
    const std::vector<float> own_weight = Columns(weight, rank * count, count);
    const MatrixBlock block = FloatBlock(own_weight, count);
    const absl::StatusOr<const WeightMatrix*> matrix =
        backend.LoadMatrix({.columns = count, .blocks = {&block, 1}});
    EXPECT_TRUE(matrix.ok()) << matrix.status();
    std::vector<float> partial(kSize);
    Result result;
    const absl::Status status = backend.AddAndNorm(
        {.add = MatMulParams{.rows = {&kRows, kMaxRows},
                             .x = AsActivations(own_x.data()),
                             .weight = *matrix,
                             .out = AsActivations(result.residual.data()),
                             .out_float = nullptr,
                             .accumulate = true},
         .norm = {.rows = {&kRows, kMaxRows},
                  .width = kWidth,
                  .epsilon = kEpsilon,
                  .x = AsActivations(result.residual.data()),
                  .weight = norm.data(),
                  .out = AsActivations(result.out.data()),
                  .out_stride = kWidth,
                  .out_column = 0},
         .partial = n == 1 ? nullptr : AsActivations(partial.data())});
    EXPECT_TRUE(status.ok()) << status;
    return result;
  }
};

TEST(CollectivesTest, ACutProductIsThatOfOneRankWithinRounding) {
  const CutProduct product;
  ReferenceBackend alone(/*num_threads=*/1);
  const CutProduct::Result want = product.Run(0, 1, alone);
  for (const int n : {2, 4}) {
    std::vector<CutProduct::Result> got(n);
    OnRanks(n, [&](int rank, ReferenceBackend& backend) {
      got[rank] = product.Run(rank, n, backend);
    });
    // A sum of 33 addends of about 1, each rounded once, in another order.
    const double tolerance = 33 * 4 * testing::kFloatRoundoff;
    EXPECT_LE(testing::MaxError(got[0].residual, want.residual), tolerance);
    EXPECT_LE(testing::RelativeRmsError(got[0].out, want.out), tolerance);
    for (const CutProduct::Result& result : got) {
      EXPECT_TRUE(testing::SameBits(result.residual, got[0].residual));
      EXPECT_TRUE(testing::SameBits(result.out, got[0].out));
    }
  }
}

// An operator fails on every rank when one of them does not come.
TEST(CollectivesTest, ARankThatFailsIsAnErrorOfTheOthersOperators) {
  OnRanks(2, [](int rank, ReferenceBackend& backend) {
    if (rank == 1) {
      backend.AbortRanks(absl::InternalError("an illegal address"));
      return;
    }
    std::vector<float> values(2);
    const int32_t one = 1;
    const std::vector<int> widths = {1, 1};
    const absl::Status status = backend.AllGather(
        {.rows = {&one, 1}, .widths = widths, .values = values.data()});
    EXPECT_TRUE(absl::IsUnavailable(status));
    EXPECT_EQ(status.message(), "rank 1 of 2 has left: an illegal address");
  });
}

}  // namespace
}  // namespace bole
