#include "kernels/reference/advance_requests.h"

#include <vector>

#include "gtest/gtest.h"

namespace bole::reference {
namespace {

constexpr int kMaxContext = 100;

// One request: what it did in the round that was run.
struct Request {
  int committed;
  int path;
  int max_tokens;
  int32_t last;
  std::vector<int32_t> stops;
};

struct Advanced {
  std::vector<int32_t> committed, max_tokens, node_limit, depth_limit;
};

Advanced Advance(const std::vector<Request>& requests) {
  const size_t count = requests.size();
  std::vector<int32_t> first = {0};
  std::vector<int32_t> first_stop = {0};
  std::vector<int32_t> stops;
  std::vector<int32_t> last;
  std::vector<SamplingControl> control(count);
  Advanced out{.committed = {},
               .max_tokens = {},
               .node_limit = std::vector<int32_t>(count, -7),
               .depth_limit = std::vector<int32_t>(count, -7)};
  for (size_t b = 0; b < count; ++b) {
    first.push_back(first.back() + requests[b].path);
    stops.insert(stops.end(), requests[b].stops.begin(),
                 requests[b].stops.end());
    first_stop.push_back(static_cast<int32_t>(stops.size()));
    last.push_back(requests[b].last);
    control[b].max_tokens = requests[b].max_tokens;
    out.committed.push_back(requests[b].committed);
  }
  AdvanceRequests({.max_requests = static_cast<int>(count),
                   .max_context = kMaxContext,
                   .path = {first.data(), nullptr},
                   .next_token = last.data(),
                   .first_stop = first_stop.data(),
                   .stop_token = stops.data(),
                   .control = control.data(),
                   .committed = out.committed.data(),
                   .node_limit = out.node_limit.data(),
                   .depth_limit = out.depth_limit.data()});
  for (const SamplingControl& c : control) {
    out.max_tokens.push_back(c.max_tokens);
  }
  return out;
}

TEST(AdvanceRequestsTest, PathsAreCommittedAndCounted) {
  const Advanced out = Advance({{10, 3, 50, 7, {}}, {60, 1, 9, 8, {7}}});

  EXPECT_EQ(out.committed, (std::vector<int32_t>{13, 61}));
  EXPECT_EQ(out.max_tokens, (std::vector<int32_t>{47, 8}));
  EXPECT_EQ(out.node_limit, (std::vector<int32_t>{87, 39}));
  EXPECT_EQ(out.depth_limit, (std::vector<int32_t>{47, 8}));
}

TEST(AdvanceRequestsTest, AStopTokenEndsItsOwnRequest) {
  const Advanced out =
      Advance({{10, 2, 50, 7, {5, 7}}, {10, 2, 50, 5, {}}, {1, 1, 9, 5, {5}}});

  EXPECT_EQ(out.node_limit, (std::vector<int32_t>{0, 88, 0}));
}

TEST(AdvanceRequestsTest, ARequestWhoseLogitsWereNotNumbersHasEnded) {
  const Advanced out =
      Advance({{10, 2, 50, kNoToken, {5}}, {10, 2, 50, 0, {5}}});

  EXPECT_EQ(out.node_limit, (std::vector<int32_t>{0, 88}));
}

TEST(AdvanceRequestsTest, TheLastTokenEndsARequest) {
  const Advanced out = Advance({{10, 5, 5, 7, {}}, {10, 5, 6, 7, {}}});

  EXPECT_EQ(out.node_limit, (std::vector<int32_t>{0, 85}));
  EXPECT_EQ(out.depth_limit, (std::vector<int32_t>{0, 1}));
}

TEST(AdvanceRequestsTest, WhoHadNoPathHasEndedAndStaysSo) {
  const Advanced out = Advance({{10, 0, 50, 7, {}}, {10, 2, 50, 7, {}}});

  EXPECT_EQ(out.committed, (std::vector<int32_t>{10, 12}));
  EXPECT_EQ(out.node_limit, (std::vector<int32_t>{0, 88}));
}

TEST(AdvanceRequestsTest, TheContextEnds) {
  const Advanced out = Advance({{97, 3, 50, 7, {}}, {97, 2, 50, 7, {}}});

  EXPECT_EQ(out.node_limit, (std::vector<int32_t>{0, 1}));
}

}  // namespace
}  // namespace bole::reference
