// Fused verification of trees against the recurrence in double.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "kernels/gdn.h"
#include "tests/kernels/cuda/cuda_test.h"
#include "tests/kernels/cuda/device_copies.h"
#include "tests/kernels/cuda/gdn/device_gdn.h"
#include "tests/kernels/gdn_oracle.h"
#include "tests/kernels/gdn_problem.h"
#include "tests/testing/matrices.h"
#include "tests/testing/random_forest.h"
#include "tests/testing/random_tree.h"

namespace bole::testing {
namespace {

constexpr int kLayer = 1;

// Errors of outputs [T, dv], summed over heads.
struct OutputErrors {
  double error = 0;     // Squared, of what was written,
  double rounding = 0;  // of the exact result rounded to bfloat16,
  double norm = 0;      // and the exact result's square.
  int64_t elements = 0;
  int64_t differ = 0;  // From the exact result rounded.

  void Add(float got, double exact) {
    const double rounded = RoundedToBFloat16(static_cast<float>(exact));
    error += (got - exact) * (got - exact);
    rounding += (rounded - exact) * (rounded - exact);
    norm += exact * exact;
    ++elements;
    if (got != rounded) ++differ;
  }
  void Add(const OutputErrors& other) {
    error += other.error;
    rounding += other.rounding;
    norm += other.norm;
    elements += other.elements;
    differ += other.differ;
  }
};

class GdnVerifyFusedTest : public CudaTest {
 protected:
  GdnShape Shape(int key_heads, int ratio) {
    return {.key_heads = key_heads,
            .value_heads = key_heads * ratio,
            .key_dim = 128,
            .value_dim = 128,
            .conv_taps = 4};
  }

  // Runs the GPU on `p`; its outputs come back into it.
  void Verify(GdnProblem& p) {
    VerifyOnDevice(*cuda_, p, kLayer, TreeSolver::kBlocks);
  }

  OutputErrors HeadErrors(const GdnProblem& p, int request, int head) {
    OutputErrors errors;
    const HeadProblem problem = ExtractHead(p, kLayer, request, head);
    const HeadSolution exact = RunRecurrence(problem);
    for (int i = 0; i < problem.num_rows; ++i) {
      const std::span<const float> got =
          p.Out(p.batch.first_row[request] + i, head);
      for (size_t c = 0; c < got.size(); ++c) {
        errors.Add(got[c], exact.o[i * got.size() + c]);
      }
    }
    return errors;
  }

  // Every `stride`-th head, from a random one on. What the kernel computes
  // before it rounds is off by some 1e-5 of a head's outputs. That moves an
  // output to the other neighbour where it lies so near to the middle between
  // two bfloat16, 2^-8 to 2^-9 of itself apart: a part in two hundred, or more
  // of outputs that are much smaller than others of the head.
  void ExpectAccurate(const GdnProblem& p, int stride) {
    OutputErrors all;
    const int num_heads = p.shape.value_heads;
    int first = UniformInt(rng_, 0, stride - 1);
    for (int b = 0; b < p.batch.num_requests(); ++b) {
      for (int head = first; head < num_heads; head += stride) {
        const OutputErrors errors = HeadErrors(p, b, head);
        if (errors.norm < 1e-60) {
          // A strong decay leaves nothing: nor may anything else be there.
          ASSERT_TRUE(errors.error <= 1e-60)
              << "request " << b << ", head " << head;
          continue;
        }
        // Rounding alone costs up to 2^-9 where a few outputs stand out.
        ASSERT_TRUE(std::sqrt(errors.error / errors.norm) <=
                    std::sqrt(errors.rounding / errors.norm) + 1e-4)
            << "request " << b << ", head " << head << ": "
            << std::sqrt(errors.error / errors.norm) << ", rounding alone "
            << std::sqrt(errors.rounding / errors.norm);
        all.Add(errors);
      }
      first = (first + 1) % stride;
    }
    total_.Add(all);
    EXPECT_LE(std::sqrt(all.error), 1.8e-3 * std::sqrt(all.norm) + 1e-30);
  }
  void ExpectFewDiffer(double share) {
    EXPECT_GT(total_.elements, 0);
    EXPECT_LE(total_.differ, share * total_.elements)
        << "of " << total_.elements;
  }

  OutputErrors total_;
};

INSTANTIATE_TEST_SUITE_P(BFloat16, GdnVerifyFusedTest,
                         ::testing::Values(ElementType::kBFloat16),
                         ElementName);

// Ragged requests, one of them fresh, one without rows.
HostBatch Ragged(std::mt19937& rng, int num_nodes) {
  std::vector<Parents> trees;
  for (const int n :
       {num_nodes, UniformInt(rng, 1, num_nodes), 0, num_nodes / 2 + 1}) {
    trees.push_back(RandomParentsOf(rng, n));
  }
  HostBatch batch = PackTrees(trees, {.spare_rows = 3, .spare_requests = 2});
  CommitSomething(rng, 6, batch);
  batch.committed[1] = 0;
  return batch;
}

TEST_P(GdnVerifyFusedTest, FewHeadsOfTreesOfEverySize) {
  int n = 0;
  for (const int num_nodes : kEdgeSizes) {
    SCOPED_TRACE(num_nodes);
    GdnProblem p(rng_,
                 {.shape = Shape(n % 3 + 1, n % 4 + 1),
                  .num_layers = 2,
                  .decay = static_cast<Decay>(n % 3),
                  .key_correlation = n % 2 == 0 ? 0.9f : 0.0f},
                 Ragged(rng_, num_nodes));
    ++n;
    Verify(p);
    ExpectAccurate(p, 2);
    if (HasFailure()) return;
  }
  ExpectFewDiffer(0.02);
}

TEST_P(GdnVerifyFusedTest, ManyHeadsOfTreesOfEverySize) {
  int n = 0;
  for (const int num_nodes : kEdgeSizes) {
    SCOPED_TRACE(num_nodes);
    GdnProblem p(rng_,
                 {.shape = n % 2 == 0 ? Shape(8, 3) : Shape(11, 2),
                  .num_layers = 2,
                  .decay = static_cast<Decay>(n % 3),
                  .key_correlation = n % 4 < 2 ? 0.9f : 0.0f},
                 Ragged(rng_, num_nodes));
    ++n;
    Verify(p);
    ExpectAccurate(p, 8);
    if (HasFailure()) return;
  }
  ExpectFewDiffer(0.02);
}

// The longest products of almost equal keys, which all count.
TEST_P(GdnVerifyFusedTest, LongChainsOfCorrelatedKeys) {
  for (const int length : {16, 64, 128}) {
    SCOPED_TRACE(length);
    const std::vector<Parents> chains = {ChainParents(length),
                                         ChainParents(length - 1)};
    HostBatch batch = PackTrees(chains, {.chains = length == 64});
    CommitSomething(rng_, 2, batch);
    GdnProblem p(rng_,
                 {.shape = Shape(2, 3),
                  .num_layers = 2,
                  .decay = Decay::kMild,
                  .key_correlation = 0.9f},
                 std::move(batch));
    Verify(p);
    ExpectAccurate(p, 1);
    if (HasFailure()) return;
  }
  ExpectFewDiffer(0.02);
}

// A block of threads has several heads of a key head in turn, or several key
// heads and requests: a multiprocessor of today's GPUs, 132, has at least two.
TEST_P(GdnVerifyFusedTest, MoreHeadsThanMultiprocessors) {
  for (const int num_nodes : {31, 64, 100, 128}) {
    SCOPED_TRACE(num_nodes);
    std::vector<Parents> trees;
    for (int n = 0; n < 16; ++n) {
      const int count = n == 7 ? 0 : num_nodes - n / 2;
      trees.push_back(n == 7       ? Parents()
                      : n % 3 == 0 ? ChainParents(count)
                                   : RandomParents(rng_, {.num_nodes = count,
                                                          .max_depth = 12,
                                                          .max_roots = 2}));
    }
    HostBatch batch = PackTrees(trees, {.spare_rows = 1});
    CommitSomething(rng_, 18, batch);
    batch.committed[3] = 0;
    GdnProblem p(rng_,
                 {.shape = num_nodes == 31 ? Shape(9, 1) : Shape(6, 3),
                  .num_layers = 2,
                  .decay = Decay::kMild,
                  .key_correlation = 0.9f},
                 std::move(batch));
    Verify(p);
    ExpectAccurate(p, 13);
    if (HasFailure()) return;
  }
  ExpectFewDiffer(0.02);
}

// Paths of up to 16 nodes, which have a kernel of their own where trees have
// more than 64: blocks with several heads of a key head, with one, with none,
// and that go on to other trees.
TEST_P(GdnVerifyFusedTest, ManyHeadsOfShortPaths) {
  int n = 0;
  for (const int num_nodes : {65, 96, 100, 127, 128, 128}) {
    SCOPED_TRACE(num_nodes);
    std::vector<Parents> trees;
    for (int b = 0; b < 16; ++b) {
      const int count = b == 7 || (n == 1 && b == 15) ? 0 : num_nodes - b / 2;
      trees.push_back(b % 4 == 3 ? ChainParents(std::min(count, 16))
                                 : RandomParents(rng_, {.num_nodes = count,
                                                        .max_depth = 4 + b % 12,
                                                        .max_roots = 2}));
    }
    HostBatch batch = PackTrees(trees, {.spare_rows = 1});
    CommitSomething(rng_, 18, batch);
    batch.committed[3] = 0;
    ASSERT_EQ(batch.max_path(), 16);
    const GdnShape shape = n % 3 == 0   ? Shape(6, 3)
                           : n % 3 == 1 ? Shape(9, 1)
                                        : Shape(9, 2);
    GdnProblem p(rng_,
                 {.shape = shape,
                  .num_layers = 2,
                  .decay = static_cast<Decay>(n % 3),
                  .key_correlation = n % 2 == 0 ? 0.9f : 0.0f},
                 std::move(batch));
    ++n;
    Verify(p);
    ExpectAccurate(p, 7);
    if (HasFailure()) return;
  }
  ExpectFewDiffer(0.02);
}

TEST_P(GdnVerifyFusedTest, RunsGiveTheSameBits) {
  GdnProblem p(rng_, {.shape = Shape(4, 2), .num_layers = 2},
               Ragged(rng_, 128));
  GdnProblem again = p;
  Verify(p);
  Verify(again);
  EXPECT_TRUE(SameBits(p.out.all(), again.out.all()));
}

// Copies run ahead of what is read: nothing may come before its place is free.
TEST_P(GdnVerifyFusedTest, RunsOfManyHeadsGiveTheSameBits) {
  for (const int num_nodes : {64, 128}) {
    SCOPED_TRACE(num_nodes);
    std::vector<Parents> trees;
    trees.reserve(16);
    for (int n = 0; n < 16; ++n) {
      trees.push_back(RandomParents(
          rng_, {.num_nodes = num_nodes - n, .max_depth = 12, .max_roots = 2}));
    }
    HostBatch batch = PackTrees(trees, {});
    CommitSomething(rng_, 16, batch);
    GdnProblem p(rng_, {.shape = Shape(6, 3), .num_layers = 2},
                 std::move(batch));
    GdnProblem first = p;
    Verify(first);
    for (int run = 0; run < 3; ++run) {
      GdnProblem again = p;
      Verify(again);
      ASSERT_TRUE(SameBits(first.out.all(), again.out.all())) << "run " << run;
    }
  }
}

}  // namespace
}  // namespace bole::testing
