// Compares `slo` with AdaServe's allocation, in virtual time. There are more
// requests with latency targets than a worker can serve in time.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <random>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/check.h"
#include "common/step_costs.h"
#include "gtest/gtest.h"
#include "scheduler_service/jobs/request.h"
#include "scheduler_service/policy/policy_options.h"
#include "tests/scheduler_service/traffic/traffic.h"
#include "tests/simulation/simulated_text.h"
#include "tests/simulation/virtual_fleet.h"
#include "tests/simulation/virtual_worker.h"
#include "tests/testing/exhaustive.h"

namespace bole {
namespace {

using ::bole::simulation::Answer;
using ::bole::simulation::Question;
using ::bole::simulation::VirtualFleet;
using ::bole::testing::After;
using ::bole::testing::Arrival;
using ::bole::testing::Letters;
using ::bole::testing::PoissonArrivals;

constexpr int kTokenFactor = 3;  // Multiplies PoissonArrivals()'s outputs.
constexpr std::chrono::milliseconds kTight{8};
constexpr std::chrono::milliseconds kLoose{25};
// Targets for the first token: of a third of the requests, and of the others.
constexpr std::chrono::milliseconds kSoon{150};
constexpr std::chrono::milliseconds kLate{1500};

// Approximately a dense 9B model on one H200.
constexpr char kCosts[] = R"({"terms": [
  {"name": "forward", "axes": [["forward_rows",
    [1, 16, 64, 96, 128, 192, 256, 384, 512, 1024]]],
   "microseconds": [4160, 4550, 4870, 5300, 5700, 6400, 7000, 10500, 13500,
                    25000]},
  {"name": "accept", "axes": [["requests", [1, 8, 16, 64]]],
   "microseconds": [71, 385, 757, 2900]},
  {"name": "draft", "axes": [["draft_depth", [1, 3, 5, 8]],
                             ["draft_top_k", [1, 4]], ["requests", [1, 16, 64]]],
   "microseconds": [[[150, 300, 700], [170, 350, 900]],
                    [[420, 600, 1300], [500, 750, 1900]],
                    [[700, 950, 1900], [850, 1300, 3100]],
                    [[1100, 1500, 2900], [1330, 2320, 5200]]]}]})";

simulation::VirtualWorkerOptions Worker() {
  constexpr int kRequests = 64;
  constexpr int kContext = 1024;
  constexpr int kPageSize = 16;
  absl::StatusOr<StepCosts> costs = StepCosts::Parse(kCosts);
  BOLE_CHECK(costs.ok());
  return {.engine = {.limits = {.max_requests = kRequests,
                                .max_nodes = 1024,
                                .max_nodes_per_tree = 64,
                                .max_prefill_tokens = 512,
                                .max_draft = {.top_k = 4, .depth = 8},
                                .num_slots = kRequests,
                                .num_pages = kRequests * kContext / kPageSize,
                                .page_size = kPageSize,
                                .max_context = kContext,
                                .vocabulary = 256,
                                .max_lease_rounds = 4},
                     .text = simulation::LetterText(),
                     .accept = {0.9},
                     .accept_of_odd = {0.5}},
          .costs = *std::move(costs),
          .faults = {},
          .is_calibrated = true};
}

struct Outcome {
  int requests = 0;
  int kept = 0;  // Those that met their target for the time per token,
  int soon = 0;  // and those that met their target for the first token.
  double tokens_per_second = 0;
  double kept_tokens_per_second = 0;

  double share() const { return static_cast<double>(kept) / requests; }
  double share_soon() const { return static_cast<double>(soon) / requests; }
};

// Sends requests when they arrive. Every second one has a tight target for the
// time per token.
class Clients {
 public:
  // `tells_first`: whether requests state their targets for the first token.
  Clients(VirtualFleet& fleet, const std::vector<Arrival>& arrivals,
          bool tells_first)
      : fleet_(fleet), tells_first_(tells_first), start_(fleet.now()) {
    for (const Arrival& arrival : arrivals) {
      fleet_.At(After(start_, arrival.seconds),
                [this, arrival] { Ask(arrival); });
    }
  }

  Outcome outcome() const {
    Outcome outcome = outcome_;
    const double seconds =
        std::chrono::duration<double>(last_ - start_).count();
    outcome.tokens_per_second = tokens_ / seconds;
    outcome.kept_tokens_per_second = kept_tokens_ / seconds;
    return outcome;
  }

 private:
  void Ask(const Arrival& arrival) {
    const std::chrono::milliseconds first =
        outcome_.requests % 3 == 0 ? kSoon : kLate;
    const std::chrono::milliseconds target =
        outcome_.requests++ % 2 == 0 ? kTight : kLoose;
    Question question{.prompt = Letters(rng_, arrival.prompt_tokens),
                      .max_tokens = kTokenFactor * arrival.output_tokens,
                      .targets = {.time_per_output_token = target}};
    if (tells_first_) question.targets.time_to_first_token = first;
    const TimePoint asked = fleet_.now();
    fleet_.Ask(std::move(question), [=, this](const Answer& answer) {
      EXPECT_TRUE(answer.status.ok() && answer.is_right);
      const auto tokens = static_cast<double>(answer.tokens.size());
      const bool kept =
          answer.end - *answer.first_token <= target * (tokens - 1);
      outcome_.kept += kept ? 1 : 0;
      outcome_.soon += *answer.first_token - asked <= first ? 1 : 0;
      tokens_ += tokens;
      kept_tokens_ += kept ? tokens : 0;
      last_ = answer.end;
    });
  }

  VirtualFleet& fleet_;
  const bool tells_first_;
  const TimePoint start_;
  TimePoint last_;
  std::mt19937 rng_{3};
  Outcome outcome_;
  double tokens_ = 0;
  double kept_tokens_ = 0;
};

Outcome RunFleet(PolicyKind kind, double per_second, double seconds,
                 bool tells_first = false) {
  simulation::VirtualFleetOptions options;
  options.scheduler.policy = kind;
  options.scheduler.admission.max_requests = 1 << 20;
  options.scheduler.admission.max_tokens = 1 << 30;
  options.workers.push_back(Worker());
  VirtualFleet fleet(std::move(options));
  const Clients clients(fleet, PoissonArrivals(11, per_second, seconds),
                        tells_first);
  fleet.RunUntil(After(fleet.now(), seconds));
  fleet.RunUntilIdle(After(fleet.now(), 600));
  EXPECT_EQ(fleet.num_open(), 0u);
  EXPECT_EQ(fleet.problem(), "");
  return clients.outcome();
}

TEST(SloTest, MoreRequestsKeepTheirTargetsThanByAdaServesAllocation) {
  const double seconds = testing::Exhaustive() ? 60 : 6;
  double most = -1;
  for (const double per_second : {10, 20, 30, 40, 60, 80}) {
    const Outcome slo = RunFleet(PolicyKind::kSlo, per_second, seconds);
    const Outcome ada = RunFleet(PolicyKind::kAdaServe, per_second, seconds);
    std::printf(
        "{\"bench\": \"slo\", \"requests_per_second\": %.0f, \"requests\": %d, "
        "\"slo_kept\": %.3f, \"adaserve_kept\": %.3f, "
        "\"slo_tokens_per_second\": %.0f, "
        "\"adaserve_tokens_per_second\": %.0f, "
        "\"slo_kept_tokens_per_second\": %.0f, "
        "\"adaserve_kept_tokens_per_second\": %.0f}\n",
        per_second, slo.requests, slo.share(), ada.share(),
        slo.tokens_per_second, ada.tokens_per_second,
        slo.kept_tokens_per_second, ada.kept_tokens_per_second);
    EXPECT_GE(slo.share(), ada.share()) << per_second;
    EXPECT_GE(slo.kept_tokens_per_second, ada.kept_tokens_per_second)
        << per_second;
    most = std::max(most, slo.share() - ada.share());
  }
  EXPECT_GE(most, 0.05);
}

// Runs the same requests with and without stating their targets for the first
// token.
TEST(SloTest, TheFirstTokenComesInTimeMoreOftenIfItIsToldWhenThatIs) {
  const double seconds = testing::Exhaustive() ? 60 : 6;
  double most = -1;
  double requests = 0;
  double told_kept = 0;
  double untold_kept = 0;
  for (const double per_second : {50, 55, 60, 80}) {
    const Outcome told = RunFleet(PolicyKind::kSlo, per_second, seconds, true);
    const Outcome untold =
        RunFleet(PolicyKind::kSlo, per_second, seconds, false);
    std::printf(
        "{\"bench\": \"slo_first\", \"requests_per_second\": %.0f, "
        "\"requests\": %d, \"told_soon\": %.3f, \"untold_soon\": %.3f, "
        "\"told_kept\": %.3f, \"untold_kept\": %.3f}\n",
        per_second, told.requests, told.share_soon(), untold.share_soon(),
        told.share(), untold.share());
    EXPECT_GE(told.share_soon(), untold.share_soon()) << per_second;
    requests += told.requests;
    told_kept += told.share() * told.requests;
    untold_kept += untold.share() * untold.requests;
    most = std::max(most, told.share_soon() - untold.share_soon());
  }
  EXPECT_GE(most, 0.1);
  // This holds for all rates together: a single rate has too few requests to
  // measure a hundredth.
  EXPECT_GE(told_kept, untold_kept - 0.01 * requests);
}

}  // namespace
}  // namespace bole
