// What a path changes, on the GPU against the reference, bit for bit.
#include <cstdint>
#include <random>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "kernels/drafting.h"
#include "kernels/sampling.h"
#include "tests/kernels/cuda/cuda_test.h"
#include "tests/kernels/cuda/device_copies.h"
#include "tests/testing/guarded_buffer.h"
#include "tests/testing/random_tree.h"

namespace bole::testing {
namespace {

class AdvanceRequestsTest : public CudaTest {};

INSTANTIATE_TEST_SUITE_P(Elements, AdvanceRequestsTest,
                         ::testing::Values(ElementType::kFloat32), ElementName);

constexpr int kControlWords = sizeof(SamplingControl) / sizeof(uint64_t);
static_assert(kControlWords * sizeof(uint64_t) == sizeof(SamplingControl));

struct Problem {
  explicit Problem(std::mt19937& rng, int requests)
      : max_requests(requests),
        control_words(requests * kControlWords),
        committed(requests),
        node_limit(requests),
        depth_limit(requests) {
    for (int b = 0; b < requests; ++b) {
      first.push_back(first.back() + UniformInt(rng, 0, 4));
      next_token.push_back(UniformInt(rng, kNoToken, 9));
      const int stops = b % 3 == 0 ? 0 : UniformInt(rng, 1, 40);
      for (int i = 0; i < stops; ++i) {
        stop_token.push_back(UniformInt(rng, 5, 200));
      }
      first_stop.push_back(static_cast<int32_t>(stop_token.size()));
      Control(b) = SamplingControl{};
      Control(b).max_tokens = UniformInt(rng, 1, 12);
      committed[b] = UniformInt(rng, 1, 300);
      node_limit[b] = -7;
      depth_limit[b] = -7;
    }
    stop_token.push_back(0);  // Never empty.
  }

  SamplingControl& Control(int b) {
    return reinterpret_cast<SamplingControl*>(control_words.data())[b];
  }

  int max_requests;
  std::vector<int32_t> first = {0}, next_token, first_stop = {0}, stop_token;
  GuardedBuffer<uint64_t> control_words;
  GuardedBuffer<int32_t> committed, node_limit, depth_limit;
};

TEST_P(AdvanceRequestsTest, AgreesWithTheReference) {
  for (int round = 0; round < 40; ++round) {
    SCOPED_TRACE(round);
    Problem want(rng_, UniformInt(rng_, 1, 70));
    Problem got = want;
    const auto params = [](Problem& p, const auto& of) {
      return AdvanceRequestsParams{
          .max_requests = p.max_requests,
          .max_context = 301,
          .path = {of(p.first), nullptr},
          .next_token = of(p.next_token),
          .first_stop = of(p.first_stop),
          .stop_token = of(p.stop_token),
          .control = reinterpret_cast<SamplingControl*>(of(p.control_words)),
          .committed = of(p.committed),
          .node_limit = of(p.node_limit),
          .depth_limit = of(p.depth_limit)};
    };
    ASSERT_TRUE(
        reference_
            .AdvanceRequests(params(want, [](auto& x) { return x.data(); }))
            .ok());
    DeviceCopies device(*cuda_);
    const absl::Status run = cuda_->AdvanceRequests(
        params(got, [&](auto& x) { return device.Of(x); }));
    ASSERT_TRUE(run.ok()) << run;
    ASSERT_NO_FATAL_FAILURE(device.Fetch());
    for (int b = 0; b < want.max_requests; ++b) {
      EXPECT_EQ(got.committed[b], want.committed[b]);
      EXPECT_EQ(got.Control(b).max_tokens, want.Control(b).max_tokens);
      EXPECT_EQ(got.node_limit[b], want.node_limit[b]);
      EXPECT_EQ(got.depth_limit[b], want.depth_limit[b]);
    }
  }
}

}  // namespace
}  // namespace bole::testing
