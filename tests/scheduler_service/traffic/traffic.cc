#include "tests/scheduler_service/traffic/traffic.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "absl/status/statusor.h"
#include "common/check.h"
#include "common/step_costs.h"
#include "tests/simulation/simulated_text.h"
#include "tests/testing/random_tree.h"

namespace bole::testing {
namespace {

constexpr char kPlainCosts[] = R"({"terms": [
  {"name": "forward", "axes": [["rows", [1, 64]]],
   "microseconds": [5000, 21000]},
  {"name": "prefill", "axes": [["prefill_tokens", [1, 2048]]],
   "microseconds": [1000, 41000]}]})";

}  // namespace

std::vector<Arrival> PoissonArrivals(uint32_t seed, double per_second,
                                     double seconds) {
  std::mt19937 rng(seed);
  std::exponential_distribution<double> gap(per_second);
  std::vector<Arrival> arrivals;
  for (double time = gap(rng); time < seconds; time += gap(rng)) {
    arrivals.push_back({.seconds = time,
                        .prompt_tokens = UniformInt(rng, 64, 448),
                        .output_tokens = UniformInt(rng, 16, 112)});
  }
  return arrivals;
}

TimePoint After(TimePoint start, double seconds) {
  return start + std::chrono::duration_cast<TimePoint::duration>(
                     std::chrono::duration<double>(seconds));
}

std::vector<int32_t> Letters(std::mt19937& rng, int length) {
  std::vector<int32_t> letters(length);
  for (int32_t& letter : letters) {
    letter = static_cast<int32_t>('a' + rng() % 26);
  }
  return letters;
}

double Percentile(std::vector<double> values, double p) {
  BOLE_CHECK(!values.empty());
  const auto rank =
      static_cast<size_t>(std::ceil(p * static_cast<double>(values.size())));
  const auto at = values.begin() + std::max<size_t>(rank, 1) - 1;
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

StepCosts PlainCosts() {
  auto costs = StepCosts::Parse(kPlainCosts);
  BOLE_CHECK(costs.ok());
  return *std::move(costs);
}

simulation::VirtualWorkerOptions PlainWorker(double speed, int lease_rounds) {
  constexpr int kContext = 1024;
  constexpr int kPageSize = 16;
  return {
      .engine = {.limits = {.max_requests = kPlainRequests,
                            .max_nodes = kPlainRequests,
                            .max_nodes_per_tree = 1,
                            .max_prefill_tokens = kPlainPrefillTokens,
                            .max_draft = {.top_k = 1, .depth = 1},
                            .num_slots = kPlainRequests,
                            .num_pages = kPlainRequests * kContext / kPageSize,
                            .page_size = kPageSize,
                            .max_context = kContext,
                            .vocabulary = 256,
                            .max_lease_rounds = lease_rounds},
                 .text = simulation::LetterText(),
                 .accept = {}},
      .costs = PlainCosts(),
      .speed = speed,
      .faults = {}};
}

ArrivingTenant::ArrivingTenant(simulation::VirtualFleet& fleet,
                               std::string tenant,
                               std::vector<Arrival> arrivals, uint32_t seed)
    : fleet_(fleet),
      start_(fleet.now()),
      tenant_(std::move(tenant)),
      arrivals_(std::move(arrivals)),
      rng_(seed) {
  Schedule();
}

void ArrivingTenant::Schedule() {
  if (next_ == arrivals_.size()) return;
  fleet_.At(After(start_, arrivals_[next_].seconds), [this] {
    Ask(arrivals_[next_++]);
    Schedule();
  });
}

void ArrivingTenant::Ask(const Arrival& arrival) {
  simulation::Question question{.tenant = tenant_,
                                .prompt = Letters(rng_, arrival.prompt_tokens),
                                .max_tokens = arrival.output_tokens};
  const auto before = std::chrono::steady_clock::now();
  const auto stream =
      fleet_.Ask(std::move(question), [this](const simulation::Answer& answer) {
        ++num_ended_;
        num_output_tokens_ += std::ssize(answer.tokens);
        if (answer.first_token) ttfts_.push_back(answer.ttft_seconds());
        num_wrong_ += answer.is_right && answer.status.ok() ? 0 : 1;
      });
  if (stream != nullptr) return;
  refusals_.push_back(
      std::chrono::duration<double>(std::chrono::steady_clock::now() - before)
          .count());
}

}  // namespace bole::testing
