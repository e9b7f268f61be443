// A token of every request through full attention in one operator.
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "kernels/attention.h"
#include "tests/kernels/attention_problem.h"
#include "tests/kernels/cuda/attention/attend_test.h"
#include "tests/kernels/cuda/attention/device_pages.h"
#include "tests/kernels/cuda/cuda_test.h"
#include "tests/kernels/cuda/device_copies.h"
#include "tests/kernels/qkv_problem.h"
#include "tests/testing/activations.h"
#include "tests/testing/matrices.h"
#include "tests/testing/random_forest.h"
#include "tests/testing/random_tree.h"

namespace bole::testing {
namespace {

class AttentionDecodeTest : public AttendTest {
 protected:
  HostBatch Tokens(const std::vector<int>& committed,
                   const BatchOptions& options) {
    HostBatch batch =
        PackTrees(std::vector<Parents>(committed.size(), Parents{-1}), options);
    for (size_t b = 0; b < committed.size(); ++b) {
      batch.committed[b] = committed[b];
    }
    return batch;
  }
  // A problem in which each row is the only one of its request.
  QkvProblem MakeProblem(const AttentionShape& shape, int page_size,
                         HostBatch batch, int first_key = 0) {
    return QkvProblem(
        rng_,
        AttendTest::MakeProblem(shape, page_size, std::move(batch), first_key),
        InverseFrequencies(shape));
  }

  // f(params), on the GPU, of what `problem` has.
  template <typename F>
  void Run(QkvProblem& problem, const F& f) {
    DeviceCopies copies(*cuda_);
    const QkvParams qkv = DeviceQkv(copies, problem, kLayer);
    AttentionParams attend = problem.p.Params(kLayer);
    attend.batch = qkv.batch;
    attend.pages = qkv.pages;
    attend.q = qkv.q;
    attend.projected = qkv.projected;
    attend.out = copies.Activations(problem.p.out);
    const absl::Status status = f({.qkv = qkv, .attend = attend});
    EXPECT_TRUE(status.ok()) << status;
    copies.Fetch();
  }
  void Decode(QkvProblem& problem) {
    Run(problem, [&](const AttentionDecodeParams& params) {
      return cuda_->AttentionDecode(params);
    });
  }

  // What the GPU's PrepareQkv and the reference's Attend make of it; the first
  // has its own tests.
  void ExpectIsTheReference(QkvProblem& problem) {
    SCOPED_TRACE(::testing::Message() << problem.p);
    QkvProblem want = problem;
    Run(want, [&](const AttentionDecodeParams& params) {
      return cuda_->PrepareQkv(params.qkv);
    });
    ASSERT_TRUE(reference_.Attend(want.p.Params(kLayer)).ok());
    Decode(problem);
    AttendTest::ExpectIsTheReference(problem.p, want.p);
  }

  static AttentionShape Heads(int group, int kv_heads) {
    return {.query_heads = group * kv_heads,
            .kv_heads = kv_heads,
            .head_dim = 256,
            .rotary_dim = 64};
  }
};

BOLE_FOR_EACH_ELEMENT(AttentionDecodeTest);

TEST_P(AttentionDecodeTest, IsTheReferenceAtTheEdgesOfTiles) {
  int n = 0;
  for (const int group : {4, 6, 3}) {
    for (const int committed : {0, 1, 63, 64, 65, 1023, 1024}) {
      if (n++ % EveryNth(5) != 0) continue;
      QkvProblem problem =
          MakeProblem(Heads(group, UniformInt(rng_, 1, 4)),
                      UniformInt(rng_, 0, 1) == 0 ? 64 : 128,
                      Tokens({committed}, {.chains = committed % 2 == 0}));
      SCOPED_TRACE(committed);

      ExpectIsTheReference(problem);
    }
  }
}

TEST_P(AttentionDecodeTest, IsTheReferenceOfSomeRequests) {
  int n = 0;
  for (const int group : {4, 6}) {
    for (const int requests : {1, 2, 4, 7}) {
      if (n++ % EveryNth(3) != 0) continue;
      std::vector<int> committed;
      committed.reserve(static_cast<size_t>(requests));
      for (int b = 0; b < requests; ++b) {
        committed.push_back(UniformInt(rng_, 0, 400));
      }
      QkvProblem problem = MakeProblem(
          Heads(group, 1), 64,
          Tokens(committed, {.spare_rows = n % 2, .spare_requests = n % 3}));

      ExpectIsTheReference(problem);
    }
  }
}

// Whatever kernel that takes.
TEST_P(AttentionDecodeTest, KeysMayBeginLater) {
  int n = 0;
  for (const int group : {4, 3}) {
    for (const int committed : {0, 1, 62, 63, 64, 300}) {
      if (n++ % EveryNth(5) != 0) continue;
      QkvProblem problem = MakeProblem(Heads(group, 1), 64,
                                       Tokens({committed, 0}, {.chains = true}),
                                       /*first_key=*/1);
      SCOPED_TRACE(committed);

      ExpectIsTheReference(problem);
    }
  }
}

TEST_P(AttentionDecodeTest, LongPrefixesAreTheReference) {
  for (const int group : {4, 6}) {
    QkvProblem problem =
        MakeProblem(Heads(group, 1), 64,
                    Tokens({UniformInt(rng_, 3000, 5000) / EveryNth(8),
                            UniformInt(rng_, 0, 3000) / EveryNth(8)},
                           {}));

    ExpectIsTheReference(problem);
  }
}

TEST_P(AttentionDecodeTest, RepeatsHaveTheSameBits) {
  QkvProblem problem =
      MakeProblem(Heads(4, 4), 64, Tokens({1500 / EveryNth(8)}, {}));
  QkvProblem again = problem;
  Decode(problem);
  for (int i = 0; i < 5; i += EveryNth(4)) {
    QkvProblem repeat = again;
    Decode(repeat);

    EXPECT_TRUE(SameBits(repeat.p.out.all(), problem.p.out.all()));
  }
}

}  // namespace
}  // namespace bole::testing
