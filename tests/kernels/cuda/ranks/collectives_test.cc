// Sums and gathered columns of several ranks, against the host's.
#include "kernels/collectives.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "kernels/collectives_kind.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/graph_set.h"
#include "tests/kernels/cuda/cuda_test.h"
#include "tests/kernels/cuda/device_copies.h"
#include "tests/kernels/cuda/ranks/on_gpus.h"
#include "tests/kernels/cuda/ranks/reduce_rows.h"
#include "tests/testing/matrices.h"

namespace bole::testing {
namespace {

using cuda::CudaBackend;

// Rows of which `used` are there.
struct Sizes {
  int max_rows;
  int used;
  int width;
};

// What a rank has before a call: minus zeros too, one by one and in pairs.
std::vector<float> PartOf(int rank, int call, size_t size) {
  std::mt19937 rng(1000 * rank + call);
  std::vector<float> part = NormalVector(rng, size);
  for (size_t i = 0; i < size; i += 7) part[i] = -0.0f;
  for (size_t i = 0; i + 1 < size; i += 64) part[i] = part[i + 1] = -0.0f;
  return part;
}

float Stored(float x, bool is_float) {
  return is_float ? x : RoundedToBFloat16(x);
}

class CollectivesTest : public CudaTest {
 protected:
  GpuGroup Group(int num_ranks) const {
    return {.num_ranks = num_ranks, .type = GetParam()};
  }

  // The residual stream behind the sum, in the bits that every rank must have.
  std::vector<float> SumOf(int num_ranks, int call,
                           const std::vector<float>& before) const {
    std::vector<float> sum(before.size());
    for (int r = 0; r < num_ranks; ++r) {
      const std::vector<float> part = PartOf(r, call, sum.size());
      for (size_t i = 0; i < sum.size(); ++i) {
        sum[i] += Stored(part[i], is_float());
      }
    }
    for (size_t i = 0; i < sum.size(); ++i) {
      sum[i] = Stored(Stored(before[i], is_float()) + sum[i], is_float());
    }
    return sum;
  }

  // One call on one rank; what it wrote is checked and returned.
  std::vector<float> Reduce(CudaBackend& backend, Communicator& ranks, int call,
                            const Sizes& sizes) const {
    const size_t used = static_cast<size_t>(sizes.used) * sizes.width;
    std::mt19937 rng(call);
    const std::vector<float> before = NormalVector(rng, used);
    ReduceRows rows(backend, sizes.max_rows,
                    PartOf(backend.rank().index, call, used), before,
                    NormalVector(rng, sizes.width));
    Meet(ranks);
    const absl::Status status = backend.AllReduceAddNorm(rows.params());
    EXPECT_TRUE(status.ok()) << status;
    rows.Fetch();
    Meet(ranks);

    const std::span<const float> residual = rows.residual();
    const std::vector<float> want = SumOf(backend.rank().count, call, before);
    for (size_t i = 0; i < used; ++i) {
      // Signs of zeros apart.
      EXPECT_EQ(residual[i], want[i]) << "call " << call << ", element " << i;
      if (residual[i] != want[i]) break;
    }
    for (size_t first = 0; first < used; first += sizes.width) {
      CheckNorm(residual.subspan(first, sizes.width),
                rows.out().subspan(first, sizes.width), rows.weight());
    }
    for (size_t i = used; i < residual.size(); ++i) {
      EXPECT_TRUE(std::isnan(rows.out()[i]) && std::isnan(residual[i]));
      if (!std::isnan(rows.out()[i])) break;
    }
    return rows.Result();
  }

  void CheckNorm(std::span<const float> x, std::span<const float> out,
                 const std::vector<float>& weight) const {
    double squares = 0;
    for (const float value : x) squares += double{value} * value;
    const double scale =
        1 / std::sqrt(squares / static_cast<double>(x.size()) + 1e-6);
    for (size_t i = 0; i < x.size(); ++i) {
      const double want = x[i] * scale * weight[i];
      ASSERT_NEAR(out[i], want, 4 * roundoff() * std::abs(want) + 1e-6)
          << "element " << i;
    }
  }
};
BOLE_FOR_EACH_ELEMENT(CollectivesTest);

TEST_P(CollectivesTest, SumsAreTheHostsOnEveryRank) {
  std::vector<Sizes> calls = {{1, 1, 64},     {1, 1, 4096},   {8, 8, 5120},
                              {8, 3, 5120},   {33, 33, 1024}, {1, 1, 512},
                              {128, 100, 64}, {16, 0, 512},   {2, 2, 3072},
                              {200, 200, 8},  {1, 1, 8192},   {256, 256, 512}};
  const std::vector<Sizes> again = calls;
  calls.insert(calls.end(), again.begin(), again.end());
  for (const int num_ranks : RankCounts()) {
    SameOnAllRanks same;
    OnGpus(Group(num_ranks), [&](CudaBackend& backend, Communicator& ranks) {
      int call = 0;
      for (const Sizes& sizes : calls) {
        same.Add(call, Reduce(backend, ranks, call, sizes));
        ++call;
      }
    });
  }
}

// More than the ranks' memory for one exchange holds.
TEST_P(CollectivesTest, ManyWideRowsAreSummedInParts) {
  if (NumGpus() < 2) {
    GTEST_SKIP() << "one GPU does not hold the blocks of both ranks, which "
                    "wait for each other";
  }
  OnGpus(Group(2), [&](CudaBackend& backend, Communicator& ranks) {
    Reduce(backend, ranks, /*call=*/1,
           {.max_rows = 700, .used = 690, .width = 8192});
    Reduce(backend, ranks, /*call=*/2,
           {.max_rows = 3, .used = 2, .width = 8192});
  });
}

TEST_P(CollectivesTest, AWidthThatVectorsDoNotDivideIsRefused) {
  OnGpus(Group(2), [&](CudaBackend& backend, Communicator& /*ranks*/) {
    const absl::Status status = backend.AllReduceAddNorm({.rows = {nullptr, 1},
                                                          .width = 30,
                                                          .epsilon = 0,
                                                          .partial = nullptr,
                                                          .residual = nullptr,
                                                          .weight = nullptr,
                                                          .out = nullptr});
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
    EXPECT_NE(status.message().find("30 wide"), std::string::npos) << status;
  });
}

absl::Status ReduceTimes(int times, const AllReduceAddNormParams& params,
                         CudaBackend& backend) {
  absl::Status queued;
  for (int i = 0; i < times && queued.ok(); ++i) {
    queued = backend.AllReduceAddNorm(params);
  }
  return queued;
}

// A captured call finds its buffer by itself, however many rows come.
TEST_P(CollectivesTest, ReplaysFollowOneAnotherWithOtherRows) {
  constexpr int kWidth = 512;
  constexpr int kRows = 40;
  constexpr size_t kSize = kRows * kWidth;
  constexpr int kCalls = 5;  // A replay has so many.
  SameOnAllRanks same;
  OnGpus(Group(2), [&](CudaBackend& backend, Communicator& ranks) {
    ReduceRows rows(backend, kRows, PartOf(backend.rank().index, 0, kSize),
                    std::vector<float>(kSize, 0.0f),
                    std::vector<float>(kWidth, 1.0f));
    const std::unique_ptr<GraphSet> graphs = backend.MakeGraphs(1);
    std::vector<int> calls_of_row(kRows);
    Meet(ranks);
    for (int replay = 0; replay < 50; ++replay) {
      const int count = replay * 13 % (kRows + 1);
      for (int row = 0; row < count; ++row) calls_of_row[row] += kCalls;
      ASSERT_TRUE(rows.SetCount(count).ok());
      // The first replay runs what it captures, too.
      const absl::Status status = graphs->Replay(
          {1}, [&] { return ReduceTimes(kCalls, rows.params(), backend); });
      ASSERT_TRUE(status.ok()) << status;
    }
    rows.Fetch();
    Meet(ranks);
    const std::span<const float> residual = rows.residual();
    same.Add(0, {residual.begin(), residual.end()});
    const std::vector<float> once =
        SumOf(2, 0, std::vector<float>(kSize, 0.0f));
    for (size_t i = 0; i < kSize; ++i) {
      const double want = double{once[i]} * calls_of_row[i / kWidth];
      const double slack = is_float() ? 1e-4 : 0.5;
      ASSERT_NEAR(residual[i], want, slack * std::abs(want) + 1e-6)
          << "row " << i / kWidth;
    }
  });
}

TEST_P(CollectivesTest, ARankThatDoesNotComeIsNamedInTime) {
  GpuGroup group = Group(2);
  group.deadline = std::chrono::milliseconds(300);
  OnGpus(group, [&](CudaBackend& backend, Communicator& /*ranks*/) {
    if (backend.rank().index == 1) return;
    const std::vector<float> ones(64, 1.0f);
    const ReduceRows rows(backend, /*max_rows=*/1, ones, ones, ones);
    const auto begin = std::chrono::steady_clock::now();
    // Those behind the first do not wait again.
    for (int i = 0; i < 20; ++i) {
      ASSERT_TRUE(backend.AllReduceAddNorm(rows.params()).ok());
    }
    ASSERT_TRUE(backend.SetMark(0).ok());
    const absl::Status status = backend.AwaitMark(0);
    EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
    EXPECT_NE(status.message().find("rank 1 did not send"), std::string::npos)
        << status;
    EXPECT_LT(std::chrono::steady_clock::now() - begin,
              std::chrono::seconds(2));
  });
}

void Gather(CudaBackend& backend, Communicator& ranks,
            const std::vector<int>& widths, int max_rows, int used) {
  const int rank = backend.rank().index;
  int width = 0;
  for (const int w : widths) width += w;
  const auto value = [](int row, int column) {
    return static_cast<float>(row * 1000 + column % 997);
  };
  int first = 0;
  for (int r = 0; r < rank; ++r) first += widths[r];
  std::vector<float> values(static_cast<size_t>(max_rows) * width,
                            Poison<float>());
  for (int row = 0; row < used; ++row) {
    for (int c = 0; c < widths[rank]; ++c) {
      values[static_cast<size_t>(row) * widths[rank] + c] =
          value(row, first + c);
    }
  }
  const std::vector<int32_t> count = {used};
  DeviceCopies device(backend);
  float* const on_device = const_cast<float*>(device.Of(values));
  const AllGatherParams params = {.rows = {device.Of(count), max_rows},
                                  .widths = widths,
                                  .values = on_device};
  Meet(ranks);  // From here on nobody allocates.
  const absl::Status status = backend.AllGather(params);
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_TRUE(
      backend.Download(values.data(), on_device, values.size() * sizeof(float))
          .ok());
  for (int row = 0; row < used; ++row) {
    for (int c = 0; c < width; ++c) {
      ASSERT_EQ(values[static_cast<size_t>(row) * width + c], value(row, c))
          << "row " << row << ", column " << c << " on rank " << rank;
    }
  }
}

TEST_P(CollectivesTest, ColumnsBecomeWholeRows) {
  for (const int num_ranks : RankCounts()) {
    OnGpus(Group(num_ranks), [&](CudaBackend& backend, Communicator& ranks) {
      std::vector<int> widths(num_ranks, 512);
      Gather(backend, ranks, widths, 5, 5);
      widths[0] = 1024;
      Gather(backend, ranks, widths, 7, 3);
      widths[num_ranks - 1] = 0;
      Gather(backend, ranks, widths, 4, 4);
      widths[num_ranks - 1] = 3;
      Gather(backend, ranks, widths, 130, 129);
      widths[0] = 5;
      Gather(backend, ranks, widths, 1, 1);
      Gather(backend, ranks, widths, 1, 0);
    });
  }
}

// More than the ranks' memory for one exchange holds.
TEST_P(CollectivesTest, ManyLongRowsAreGatheredInParts) {
  OnGpus(Group(2), [&](CudaBackend& backend, Communicator& ranks) {
    Gather(backend, ranks, {124416, 123904}, 90, 80);
    Gather(backend, ranks, {124416, 123904}, 2, 2);
  });
}

TEST_P(CollectivesTest, NcclGivesTheSameBits) {
  constexpr int kRanks = 2;
  if (NumGpus() < kRanks) GTEST_SKIP() << "NCCL wants a GPU for each rank";
  SameOnAllRanks same;
  for (const CollectivesKind kind :
       {CollectivesKind::kPush, CollectivesKind::kNccl}) {
    GpuGroup group = Group(kRanks);
    group.kind = kind;
    OnGpus(group, [&](CudaBackend& backend, Communicator& ranks) {
      same.Add(0, Reduce(backend, ranks, 0, {4, 3, 512}));
      same.Add(1, Reduce(backend, ranks, 1, {700, 700, 5120}));
      Gather(backend, ranks, {512, 1024}, 9, 8);
      Gather(backend, ranks, {5, 0}, 9, 9);
      Gather(backend, ranks, {124416, 123904}, 90, 80);
    });
  }
}

}  // namespace
}  // namespace bole::testing
