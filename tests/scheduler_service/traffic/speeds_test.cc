// Replicas of different speeds beside an ideal shared queue, in virtual time.
#include <cstdio>
#include <vector>

#include "gtest/gtest.h"
#include "tests/scheduler_service/traffic/shared_queue.h"
#include "tests/scheduler_service/traffic/traffic.h"
#include "tests/simulation/virtual_fleet.h"
#include "tests/testing/exhaustive.h"

namespace bole {
namespace {

using ::bole::simulation::VirtualFleet;
using ::bole::testing::After;
using ::bole::testing::Arrival;
using ::bole::testing::ArrivingTenant;
using ::bole::testing::Percentile;
using ::bole::testing::PlainWorker;
using ::bole::testing::PoissonArrivals;
using ::bole::testing::RunSharedQueue;

constexpr double kMostOverShared = 1.2;
const std::vector<double> kSpeeds = {1, 3};

// Requests in a second that the shared queue serves when it is never empty.
double Capacity() {
  std::vector<Arrival> all = PoissonArrivals(1, 4000, 1);
  for (Arrival& arrival : all) arrival.seconds = 0;
  const std::vector<double> ends = RunSharedQueue(all, kSpeeds, 1).ends;
  const size_t first = ends.size() / 5;
  const size_t last = ends.size() * 4 / 5;
  return static_cast<double>(last - first) / (ends[last] - ends[first]);
}

std::vector<double> RunFleet(const std::vector<Arrival>& arrivals,
                             int lease_rounds) {
  simulation::VirtualFleetOptions options;
  options.scheduler.lease_rounds = lease_rounds;
  options.scheduler.admission.max_requests = 1 << 20;
  options.scheduler.admission.max_tokens = 1 << 30;
  for (const double speed : kSpeeds) {
    options.workers.push_back(PlainWorker(speed, lease_rounds));
  }
  VirtualFleet fleet(std::move(options));
  const ArrivingTenant tenant(fleet, "", arrivals, 1);
  fleet.RunUntil(After(fleet.now(), arrivals.back().seconds + 1));
  fleet.RunUntilIdle(After(fleet.now(), 600));
  EXPECT_EQ(tenant.num_ended(), std::ssize(arrivals));
  EXPECT_EQ(tenant.num_wrong(), 0);
  EXPECT_EQ(fleet.problem(), "");
  return tenant.ttfts();
}

// The parameter is the number of rounds of a lease.
class SpeedsTest : public ::testing::TestWithParam<int> {};

TEST_P(SpeedsTest, TheSlowestPercentIsNearThatOfASharedQueue) {
  const int lease_rounds = GetParam();
  const int seeds = testing::Exhaustive() ? 5 : 1;
  const double seconds = testing::Exhaustive() ? 120 : 15;
  const double capacity = Capacity();
  for (const double load : {0.7, 0.9}) {
    std::vector<double> ours;
    std::vector<double> shared;
    for (int seed = 1; seed <= seeds; ++seed) {
      const std::vector<Arrival> arrivals =
          PoissonArrivals(seed, load * capacity, seconds);
      const std::vector<double> a = RunFleet(arrivals, lease_rounds);
      const std::vector<double> b =
          RunSharedQueue(arrivals, kSpeeds, lease_rounds).ttfts;
      std::printf("seed %d: p99 %.1f ms, shared queue %.1f ms\n", seed,
                  1e3 * Percentile(a, 0.99), 1e3 * Percentile(b, 0.99));
      ours.insert(ours.end(), a.begin(), a.end());
      shared.insert(shared.end(), b.begin(), b.end());
    }
    const double ratio = Percentile(ours, 0.99) / Percentile(shared, 0.99);
    std::printf(
        "{\"bench\": \"speeds 1 and 3\", \"lease_rounds\": %d, \"load\": %.1f, "
        "\"requests_per_second\": %.1f, \"requests\": %zu, "
        "\"ttft_p50_ms\": %.2f, \"ttft_p99_ms\": %.2f, "
        "\"shared_p50_ms\": %.2f, \"shared_p99_ms\": %.2f, "
        "\"p99_ratio\": %.3f}\n",
        lease_rounds, load, load * capacity, ours.size(),
        1e3 * Percentile(ours, 0.5), 1e3 * Percentile(ours, 0.99),
        1e3 * Percentile(shared, 0.5), 1e3 * Percentile(shared, 0.99), ratio);
    EXPECT_LE(ratio, kMostOverShared);
  }
}

INSTANTIATE_TEST_SUITE_P(Leases, SpeedsTest, ::testing::Values(1, 4));

}  // namespace
}  // namespace bole
