// Drawing and drafting from logits whose columns are cut among ranks: each rank
// has what one rank with all columns has.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/drafting.h"
#include "kernels/sampling.h"
#include "tests/kernels/cuda/cuda_test.h"
#include "tests/kernels/cuda/device_copies.h"
#include "tests/kernels/cuda/ranks/on_gpus.h"
#include "tests/kernels/cuda/sampling/device_sampling.h"
#include "tests/kernels/cuda/sampling/sample_cases.h"
#include "tests/kernels/reference/cut_columns.h"
#include "tests/kernels/reference/sample_batch.h"
#include "tests/testing/guarded_buffer.h"
#include "tests/testing/matrices.h"
#include "tests/testing/random_tree.h"

namespace bole::testing {
namespace {

using cuda::CudaBackend;

constexpr int kQwenVocabulary = 248320;
constexpr int kQwenValid = 248077;

// Sums of exponentials in another order, and a rounding.
void ExpectLogProb(float got, float want) {
  if (std::isinf(want) || std::isnan(want)) {
    EXPECT_TRUE(got == want || (std::isnan(got) && std::isnan(want))) << got;
    return;
  }
  EXPECT_NEAR(got, want, 1e-6 + std::abs(want) * 0x1p-22);
}

void ExpectSame(const std::vector<SampledPath>& got,
                const std::vector<SampledPath>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t b = 0; b < want.size(); ++b) {
    SCOPED_TRACE(b);
    EXPECT_EQ(got[b].tokens(), want[b].tokens());
    EXPECT_EQ(got[b].accepted, want[b].accepted);
    EXPECT_EQ(got[b].next_token, want[b].next_token);
    ASSERT_EQ(got[b].visits.size(), want[b].visits.size());
    for (size_t i = 0; i < want[b].visits.size(); ++i) {
      const SampledVisit& visit = got[b].visits[i];
      const SampledVisit& wanted = want[b].visits[i];
      EXPECT_EQ(visit.node, wanted.node);
      if (wanted.token == kNoToken) continue;
      ExpectLogProb(visit.logprob, wanted.logprob);
      ASSERT_EQ(visit.top.size(), wanted.top.size());
      for (size_t t = 0; t < wanted.top.size(); ++t) {
        EXPECT_EQ(visit.top[t].first, wanted.top[t].first);
        ExpectLogProb(visit.top[t].second, wanted.top[t].second);
      }
    }
  }
}

std::vector<float> LogitsOf(const SampleCase& c) {
  std::vector<float> logits;
  for (const SampledRequest& request : c.requests) {
    for (const std::vector<float>& row : request.logits) {
      logits.insert(logits.end(), row.begin(), row.end());
    }
  }
  return logits;
}

// While another rank's kernel waits on the same GPU, none may allocate.
void Reserve(CudaBackend& backend) {
  const absl::Status status = backend.ReserveScratch(size_t{16} << 20);
  ASSERT_TRUE(status.ok()) << status;
}

class CutHeadTest : public CudaTest {
 protected:
  static GpuGroup Group(int num_ranks) {
    return {.num_ranks = num_ranks, .type = ElementType::kFloat32};
  }

  // What one rank draws.
  std::vector<SampledPath> Whole(const SampleCase& c) {
    std::vector<int32_t> counts = c.counts;
    SampleBatch batch(c.requests, c.vocabulary, c.num_valid_tokens, counts);
    DeviceSampling device(*cuda_);
    const absl::Status status = cuda_->Sample(device.Of(batch, counts));
    EXPECT_TRUE(status.ok()) << status;
    device.Fetch();
    return batch.Unpack();
  }

  // As often as `times`, without a wait. The rank's logits begin some rows
  // behind others, which are NaN.
  static void ExpectDraws(CudaBackend& backend, Communicator& ranks,
                          const SampleCase& c, const std::vector<int>& cut,
                          int times, const std::vector<SampledPath>& want) {
    constexpr int kRowsBefore = 3;
    const int rank = backend.rank().index;
    const std::vector<float> own = ColumnsOf(rank, cut, LogitsOf(c));
    std::vector<float> part(static_cast<size_t>(kRowsBefore) * cut[rank],
                            std::numeric_limits<float>::quiet_NaN());
    part.insert(part.end(), own.begin(), own.end());
    const size_t rows = LogitsOf(c).size() / c.vocabulary;
    const auto widest =
        static_cast<size_t>(*std::max_element(cut.begin(), cut.end()));
    auto logits = backend.AllocateShared(
        (kRowsBefore + rows) * widest * sizeof(float), "logits");
    ASSERT_TRUE(logits.ok()) << logits.status();
    ASSERT_TRUE(
        backend.Upload(logits->get(), part.data(), part.size() * sizeof(float))
            .ok());
    std::vector<int32_t> counts = c.counts;
    SampleBatch batch(c.requests, c.vocabulary, c.num_valid_tokens, counts);
    DeviceSampling device(backend);
    SampleParams params = device.Of(batch, counts);
    params.logits = static_cast<const float*>(logits->get());
    params.first_logits = kRowsBefore;
    params.rank_columns = cut;
    Meet(ranks);
    for (int i = 0; i < times; ++i) {
      const absl::Status status = backend.Sample(params);
      EXPECT_TRUE(status.ok()) << status;
    }
    device.Fetch();
    Meet(ranks);
    ExpectSame(batch.Unpack(), want);
    batch.ExpectSpareUntouched();
  }

  void Compare(const SampleCase& c, const std::vector<int>& cut,
               int times = 1) {
    const std::vector<SampledPath> want = Whole(c);
    OnGpus(Group(static_cast<int>(cut.size())),
           [&](CudaBackend& backend, Communicator& ranks) {
             Reserve(backend);
             ExpectDraws(backend, ranks, c, cut, times, want);
           });
  }
};
INSTANTIATE_TEST_SUITE_P(Elements, CutHeadTest,
                         ::testing::Values(ElementType::kFloat32), ElementName);

// Whole groups for each rank but the last that has any.
std::vector<int> RandomCut(std::mt19937& rng, int num_ranks, int vocabulary) {
  std::vector<int> cut;
  int left = vocabulary;
  for (int r = 0; r + 1 < num_ranks; ++r) {
    const int groups = UniformInt(rng, 0, left / kHeadGroupTokens);
    cut.push_back(groups * kHeadGroupTokens);
    left -= cut.back();
  }
  cut.push_back(left);
  return cut;
}

TEST_P(CutHeadTest, DrawsAreThoseOfOneRank) {
  for (const int num_ranks : RankCounts()) {
    for (int round = 0; round < 60; round += EveryNth(20)) {
      SCOPED_TRACE(round);
      const SampleCase c = RandomSampleCase(rng_, round % 6 == 0 ? 400 : 6000);
      ASSERT_NO_FATAL_FAILURE(
          Compare(c, RandomCut(rng_, num_ranks, c.vocabulary)));
    }
  }
}

// Each call after the first reuses what the ones before left.
TEST_P(CutHeadTest, CallsFollowOneAnother) {
  const SampleCase c = RandomSampleCase(rng_, 6000);
  Compare(c, RandomCut(rng_, 2, c.vocabulary), 30);
}

// Filters that read the other rank's logits: few groups, many and all of them.
TEST_P(CutHeadTest, DrawsFromAFullVocabularyAreThoseOfOneRank) {
  const std::vector<SamplingControl> controls = ExtremeAndUsualControls();
  SampleCase c = {.requests = {},
                  .vocabulary = kQwenVocabulary,
                  .num_valid_tokens = kQwenValid,
                  .counts = RandomCounts(rng_, kQwenVocabulary)};
  for (size_t i = 0; i < controls.size(); i += EveryNth(3)) {
    c.requests.push_back(
        OneRow(NormalVector(rng_, kQwenVocabulary, 2), controls[i]));
    c.requests.back().control.seed += c.requests.size();
  }
  // The best on either side of the border, ties across it, and a row that is
  // not a number on the last rank alone.
  c.requests.push_back(c.requests.front());
  c.requests.back().logits[0].assign(kQwenVocabulary, 1.5f);
  c.requests.back().control.top_p = 0.5f;
  for (const int best : {124415, 124416, kQwenValid - 1}) {
    c.requests.push_back(c.requests.front());
    c.requests.back().logits[0][best] = 40;
  }
  c.requests.push_back(c.requests.front());
  c.requests.back().logits[0][kQwenValid - 1] =
      std::numeric_limits<float>::quiet_NaN();

  Compare(c, {124416, 123904});
  Compare(c, {kQwenVocabulary, 0});
  Compare(c, {512, kQwenVocabulary - 512});
}

TEST_P(CutHeadTest, HostileRowsAreThoseOfOneRank) {
  const int vocabulary = 2049;
  SampleCase c = {.requests = {},
                  .vocabulary = vocabulary,
                  .num_valid_tokens = vocabulary - 1,
                  .counts = RandomCounts(rng_, vocabulary)};
  int n = 0;
  for (const std::vector<float>& row : HostileRows(rng_, vocabulary)) {
    for (SamplingControl control : ExtremeControls()) {
      if (n++ % 5 != 0) continue;
      control.seed += c.requests.size();
      c.requests.push_back(OneRow(row, control));
    }
  }
  Compare(c, {1024, 1025});
  Compare(c, {2048, 1});  // The second has padding alone.
}

// More rows than are told at once. Their logits are a few rows, time and again,
// which no host has whole.
TEST_P(CutHeadTest, ManyRowsAreToldInParts) {
  if (EveryNth(2) > 1) GTEST_SKIP() << "only the number of rows is new";
  constexpr int kRows = 2900;
  constexpr int kDifferent = 20;
  constexpr int kShown = 8;  // Columns that the host's batch has.
  const std::vector<int> cut = {124416, 123904};
  const std::vector<float> rows =
      NormalVector(rng_, size_t{kDifferent} * kQwenVocabulary, 2);
  std::vector<SampledRequest> requests;
  for (int i = 0; i < kRows; ++i) {
    requests.push_back(OneRow(std::vector<float>(kShown), PlainControl(i)));
    requests.back().control.temperature = i % 4 == 0 ? 0 : 1;
    requests.back().control.top_p = i % 3 == 0 ? 0.9f : 1;
    requests.back().control.top_logprobs = i % 5;
  }
  const auto draw = [&](CudaBackend& backend, Communicator* ranks) {
    const int rank = backend.rank().index;
    const std::vector<int> widths =
        ranks == nullptr ? std::vector<int>{kQwenVocabulary} : cut;
    const std::vector<float> part = ColumnsOf(rank, widths, rows);
    const size_t row_bytes = sizeof(float) * widths[rank];
    auto logits = backend.AllocateShared(
        sizeof(float) * widths[0] * size_t{kRows}, "logits");
    EXPECT_TRUE(logits.ok()) << logits.status();
    if (!logits.ok()) return std::vector<SampledPath>();
    for (int first = 0; first < kRows; first += kDifferent) {
      EXPECT_TRUE(
          backend
              .Upload(static_cast<char*>(logits->get()) + first * row_bytes,
                      part.data(), kDifferent * row_bytes)
              .ok());
    }
    std::vector<int32_t> counts(size_t{kSampleSlots} * kShown);
    SampleBatch batch(requests, kShown, kShown, counts);
    DeviceSampling device(backend);
    SampleParams params = device.Of(batch, counts);
    params.vocabulary = kQwenVocabulary;
    params.num_valid_tokens = kQwenValid;
    params.logits = static_cast<const float*>(logits->get());
    params.rank_columns = widths;
    if (ranks != nullptr) Meet(*ranks);
    const absl::Status status = backend.Sample(params);
    EXPECT_TRUE(status.ok()) << status;
    device.Fetch();
    if (ranks != nullptr) Meet(*ranks);
    return batch.Unpack();
  };
  const std::vector<SampledPath> want = draw(*cuda_, nullptr);
  OnGpus(Group(2), [&](CudaBackend& backend, Communicator& ranks) {
    Reserve(backend);
    ExpectSame(draw(backend, &ranks), want);
  });
}

TEST_P(CutHeadTest, ABorderWithinAGroupAndForeignMemoryAreRefused) {
  const SampleCase c = {
      .requests = {OneRow(std::vector<float>(1200, 1.0f), PlainControl(1))},
      .vocabulary = 1200,
      .num_valid_tokens = 1200,
      .counts = RandomCounts(rng_, 1200)};
  OnGpus(Group(2), [&](CudaBackend& backend, Communicator& ranks) {
    auto shared = backend.AllocateShared(1200 * sizeof(float), "logits");
    ASSERT_TRUE(shared.ok()) << shared.status();
    std::vector<int32_t> counts = c.counts;
    SampleBatch batch(c.requests, c.vocabulary, c.num_valid_tokens, counts);
    DeviceSampling device(backend);
    SampleParams params = device.Of(batch, counts);
    const std::vector<int> within = {600, 600};
    params.rank_columns = within;

    const absl::Status foreign = backend.Sample(params);
    params.logits = static_cast<const float*>(shared->get());
    const absl::Status divided = backend.Sample(params);

    EXPECT_EQ(foreign.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(divided.code(), absl::StatusCode::kUnimplemented);
    EXPECT_NE(divided.message().find("600"), std::string::npos) << divided;
    Meet(ranks);
  });
}

struct Best {
  std::vector<int32_t> token;
  std::vector<float> log_prob;
};

// The best of rows of `widths` columns together; of them `used` are there.
Best BestOf(CudaBackend& backend, Communicator* ranks,
            const std::vector<float>& logits, const std::vector<int>& widths,
            int used, int top_k) {
  const int columns = std::accumulate(widths.begin(), widths.end(), 0);
  const auto rows = static_cast<int>(logits.size()) / columns;
  const std::vector<float> part =
      ColumnsOf(backend.rank().index, widths, logits);
  std::vector<int32_t> list(columns);
  for (int v = 0; v < columns; ++v) list[v] = 10 + 3 * v;
  const std::vector<int32_t> count = {used};
  GuardedBuffer<int32_t> token(static_cast<size_t>(rows) * top_k);
  GuardedBuffer<float> log_prob(static_cast<size_t>(rows) * top_k);
  DeviceCopies device(backend);
  TopKParams params = {.rows = {device.Of(count), rows},
                       .vocabulary = columns,
                       .num_valid_tokens = columns - 2,
                       .top_k = top_k,
                       .logits = device.Of(part),
                       .rank_columns = widths,
                       .token_of = device.Of(list),
                       .token = device.Of(token),
                       .log_prob = device.Of(log_prob)};
  if (ranks != nullptr) Meet(*ranks);
  for (int i = 0; i < 3; ++i) {
    const absl::Status status = backend.TopK(params);
    EXPECT_TRUE(status.ok()) << status;
  }
  device.Fetch();
  if (ranks != nullptr) Meet(*ranks);
  const size_t size = static_cast<size_t>(used) * top_k;
  return {{token.data(), token.data() + size},
          {log_prob.data(), log_prob.data() + size}};
}

void ExpectSameBest(const Best& got, const Best& want) {
  EXPECT_EQ(got.token, want.token);
  for (size_t i = 0; i < want.log_prob.size(); ++i) {
    ExpectLogProb(got.log_prob[i], want.log_prob[i]);
  }
}

TEST_P(CutHeadTest, TheBestColumnsAreThoseOfOneRank) {
  const std::vector<std::vector<int>> cuts = {
      {16211, 16557}, {512, 512}, {5, 4100}, {4096, 3}, {0, 300}, {300, 0}};
  for (const std::vector<int>& cut : cuts) {
    const int columns = cut[0] + cut[1];
    for (const int rows : {1, 5, 40}) {
      SCOPED_TRACE(::testing::Message() << cut[0] << " and " << cut[1]
                                        << " columns, " << rows << " rows");
      std::vector<float> logits =
          NormalVector(rng_, static_cast<size_t>(rows) * columns, 3);
      for (float& z : logits) {
        if (rows == 5) z = std::round(z);
      }
      const int used = rows - rows / 5;
      const int top_k = 1 + rows % 8;
      const Best want = BestOf(*cuda_, nullptr, logits, {columns}, used, top_k);
      OnGpus(Group(2), [&](CudaBackend& backend, Communicator& ranks) {
        Reserve(backend);
        const Best got = BestOf(backend, &ranks, logits, cut, used, top_k);
        ExpectSameBest(got, want);
      });
    }
  }
}

}  // namespace
}  // namespace bole::testing
