// A tenant that floods the scheduler beside one that asks for little, in
// virtual time.
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/scheduler_service/scrape.h"
#include "tests/scheduler_service/traffic/traffic.h"
#include "tests/simulation/virtual_fleet.h"
#include "tests/testing/exhaustive.h"

namespace bole {
namespace {

using ::bole::simulation::VirtualFleet;
using ::bole::testing::After;
using ::bole::testing::ArrivingTenant;
using ::bole::testing::Percentile;
using ::bole::testing::PlainWorker;
using ::bole::testing::PoissonArrivals;

constexpr double kMostOverBaseline = 1.3;
constexpr double kMostRefusalSeconds = 0.005;
constexpr double kOtherLoad = 0.2;
constexpr int kWorkers = 2;

simulation::VirtualFleetOptions Options() {
  simulation::VirtualFleetOptions options;
  for (int i = 0; i < kWorkers; ++i) {
    options.workers.push_back(PlainWorker(/*speed=*/1, /*lease_rounds=*/4));
  }
  return options;
}

struct Outcome {
  std::vector<double> ttfts;     // Of the other tenant.
  std::vector<double> refusals;  // Of the flood.
  double beside_per_second;      // Requests of the flood that ended.
  double preempted_per_second;
};

// The other tenant beside one that sends `beside` requests in a second.
Outcome RunBeside(double other, double beside, double seconds) {
  VirtualFleet fleet(Options());
  const ArrivingTenant flood(fleet, "flood",
                             PoissonArrivals(7, beside, seconds), 1);
  const ArrivingTenant tenant(fleet, "other",
                              PoissonArrivals(8, other, seconds), 2);
  fleet.RunUntil(After(fleet.now(), seconds));
  Outcome outcome{.ttfts = {},
                  .refusals = flood.refusals(),
                  .beside_per_second = flood.num_ended() / seconds,
                  .preempted_per_second =
                      testing::Scrape(*fleet.metrics().registry())
                          .at("bole_migrations_total{reason=\"preempted\"}") /
                      seconds};
  fleet.RunUntilIdle(After(fleet.now(), 600));
  outcome.ttfts = tenant.ttfts();
  EXPECT_TRUE(tenant.refusals().empty());
  EXPECT_EQ(tenant.num_wrong() + flood.num_wrong(), 0);
  EXPECT_EQ(fleet.problem(), "");
  EXPECT_EQ(fleet.num_open(), 0);
  return outcome;
}

// Requests in a second that end while more wait than can run.
double Capacity(double seconds) {
  VirtualFleet fleet(Options());
  const ArrivingTenant flood(fleet, "flood",
                             PoissonArrivals(9, 1000, 2 * seconds), 1);
  fleet.RunUntil(After(fleet.now(), seconds));
  const int before = flood.num_ended();
  fleet.RunUntil(After(fleet.now(), seconds));
  const double capacity = (flood.num_ended() - before) / seconds;
  fleet.RunUntilIdle(After(fleet.now(), 600));
  return capacity;
}

TEST(FloodTest, TheOtherTenantWaitsLittleLongerThanBesideOneThatFillsTheRest) {
  const double seconds = testing::Exhaustive() ? 600 : 60;
  const double capacity = Capacity(20);
  const double other = kOtherLoad * capacity;
  const Outcome filled = RunBeside(other, capacity - other, seconds);
  const Outcome flooded = RunBeside(other, 10 * capacity, seconds);
  const double ratio =
      Percentile(flooded.ttfts, 0.99) / Percentile(filled.ttfts, 0.99);
  const double refusal = Percentile(flooded.refusals, 0.99);
  std::printf(
      "{\"bench\": \"flood\", \"seconds\": %.0f, "
      "\"capacity_per_second\": %.1f, \"other_requests\": %zu, "
      "\"filled_p50_ms\": %.1f, \"filled_p99_ms\": %.1f, "
      "\"flooded_p50_ms\": %.1f, \"flooded_p99_ms\": %.1f, "
      "\"p99_ratio\": %.3f, \"refusals\": %zu, \"refusal_p99_us\": %.1f, "
      "\"filler_ended_per_second\": %.1f, \"flood_ended_per_second\": %.1f, "
      "\"preempted_per_second_filled\": %.2f, "
      "\"preempted_per_second_flooded\": %.2f}\n",
      seconds, capacity, flooded.ttfts.size(),
      1e3 * Percentile(filled.ttfts, 0.5), 1e3 * Percentile(filled.ttfts, 0.99),
      1e3 * Percentile(flooded.ttfts, 0.5),
      1e3 * Percentile(flooded.ttfts, 0.99), ratio, flooded.refusals.size(),
      1e6 * refusal, filled.beside_per_second, flooded.beside_per_second,
      filled.preempted_per_second, flooded.preempted_per_second);

  EXPECT_LE(ratio, kMostOverBaseline);
  EXPECT_LE(refusal, kMostRefusalSeconds);
  // What the other leaves is still served, but for what is prefilled again.
  EXPECT_GE(flooded.beside_per_second, 0.7 * (capacity - other));
}

}  // namespace
}  // namespace bole
