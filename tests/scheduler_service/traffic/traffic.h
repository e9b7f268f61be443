// Arrivals at random, the workers that serve them, and what is made of their
// times.
#ifndef BOLE_TESTS_SCHEDULER_SERVICE_TRAFFIC_TRAFFIC_H_
#define BOLE_TESTS_SCHEDULER_SERVICE_TRAFFIC_TRAFFIC_H_

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "scheduler_service/jobs/request.h"
#include "tests/simulation/virtual_fleet.h"
#include "tests/simulation/virtual_worker.h"

namespace bole::testing {

struct Arrival {
  double seconds;  // Since the start.
  int prompt_tokens;
  int output_tokens;
};

// Independent arrivals, as many in a second on average, with prompts of 64 to
// 448 tokens and outputs of 16 to 112. The same seed gives the same ones.
std::vector<Arrival> PoissonArrivals(uint32_t seed, double per_second,
                                     double seconds);

// `seconds` after `start`.
TimePoint After(TimePoint start, double seconds);

// Small letters.
std::vector<int32_t> Letters(std::mt19937& rng, int length);

// The least value that the share `p` of all values does not exceed.
// REQUIRES: there are values.
double Percentile(std::vector<double> values, double p);

// A worker without a drafter that runs 64 requests. A round takes 5 ms with one
// row and 21 ms with 64, and 20 us more for each token of prefill.
simulation::VirtualWorkerOptions PlainWorker(double speed, int lease_rounds);
StepCosts PlainCosts();
inline constexpr int kPlainRequests = 64;
inline constexpr int kPlainPrefillTokens = 2048;

// Lets the arrivals come to the fleet, from now on, as requests of `tenant`.
class ArrivingTenant {
 public:
  ArrivingTenant(simulation::VirtualFleet& fleet, std::string tenant,
                 std::vector<Arrival> arrivals, uint32_t seed);

  const std::vector<double>& ttfts() const { return ttfts_; }  // Seconds.
  // Wall time of each request that was refused, in seconds.
  const std::vector<double>& refusals() const { return refusals_; }
  int num_ended() const { return num_ended_; }
  int64_t num_output_tokens() const { return num_output_tokens_; }
  // Ended otherwise than well, or with a wrong text.
  int num_wrong() const { return num_wrong_; }

 private:
  void Schedule();
  void Ask(const Arrival& arrival);

  simulation::VirtualFleet& fleet_;
  const TimePoint start_;
  const std::string tenant_;
  const std::vector<Arrival> arrivals_;
  std::mt19937 rng_;
  size_t next_ = 0;
  std::vector<double> ttfts_;
  std::vector<double> refusals_;
  int num_ended_ = 0;
  int num_wrong_ = 0;
  int64_t num_output_tokens_ = 0;
};

}  // namespace bole::testing

#endif  // BOLE_TESTS_SCHEDULER_SERVICE_TRAFFIC_TRAFFIC_H_
