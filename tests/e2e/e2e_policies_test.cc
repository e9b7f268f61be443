// The same text under every policy, and when the policy changes in mid-stream.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/check.h"
#include "common/cost_table.h"
#include "common/model_fingerprint.h"
#include "common/step_costs.h"
#include "common/version.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "scheduler_service/policy/policy_options.h"
#include "tests/e2e/call.h"
#include "tests/e2e/system.h"
#include "tests/worker_service/eval/demo_model.h"

namespace bole::e2e {
namespace {

constexpr char kModel[] = "models/demo";
constexpr int kAtATime = 8;
constexpr size_t kStreams = 4;       // That go from policy to policy.
constexpr size_t kTokensOfEach = 6;  // At least, under one policy.
// Forwards cost the same up to 40 rows. Drafts of trees pay for one request,
// drafts of chains for up to four, and for more of them nothing does.
constexpr char kCosts[] = R"({"terms": [
  {"name": "forward", "axes": [["forward_rows", [1, 40, 80, 512]]],
   "microseconds": [20000, 20000, 200000, 2000000]},
  {"name": "draft", "axes": [["requests", [1, 2, 4, 5, 8]],
                             ["draft_top_k", [0, 1, 4]]],
   "microseconds": [[0, 8000, 8000], [0, 8000, 200000], [0, 8000, 200000],
                    [0, 200000, 200000], [0, 200000, 200000]]}]})";

// Writes the table as one that was measured with the worker of a System.
std::string WriteTable() {
  CostTable table;
  absl::StatusOr<StepCosts> costs = StepCosts::Parse(kCosts);
  const auto fingerprint = FingerprintOf(kModel);
  BOLE_CHECK(costs.ok());
  BOLE_CHECK(fingerprint.ok());
  table.costs = *std::move(costs);
  table.of = {.model = "demo",
              .fingerprint = FingerprintForCosts(*fingerprint),
              .device = "cpu, 1 thread",
              .build = kVersion};
  std::string path = ::testing::TempDir() + "/policies_costs.json";
  std::ofstream(path) << ToJson(table);
  return path;
}

SystemOptions With(PolicyKind kind) {
  SystemOptions options;
  options.cost_table_path = WriteTable();
  options.scheduler.policy = kind;
  options.scheduler.capacity = 48;
  return options;
}

// Half of them greedy. Their lengths differ, so that fewer and fewer run.
std::vector<v1::GenerateRequest> Requests() {
  const auto prompts = testing_support::ReadGoldenJson("mat.json")["prompts"]
                           .get<std::vector<std::string>>();
  std::vector<v1::GenerateRequest> requests;
  for (size_t i = 0; i < prompts.size(); ++i) {
    const size_t place = i % kAtATime;
    v1::GenerateRequest request =
        GreedyRequest(prompts[i], 8 + 4 * static_cast<int>(place) +
                                      (place + 1 == kAtATime ? 24 : 0));
    v1::SamplingParams& sampling = *request.mutable_sampling_params();
    sampling.set_seed(i);
    if (i / kAtATime % 2 == 1) sampling.set_temperature(0.8f);
    if (i % 3 == 0) {
      request.mutable_targets()->set_time_per_output_token_ms(i % 2 ? 5 : 500);
    }
    if (i % kAtATime == 2) {
      request.mutable_speculation()->set_mode(v1::SPECULATION_MODE_CHAIN);
    }
    requests.push_back(std::move(request));
  }
  return requests;
}

// The requests, as many at a time as can run; the next ones when all of these
// have ended.
std::vector<Generation> RunAll(
    System& system, const std::vector<v1::GenerateRequest>& requests) {
  std::vector<Generation> generations(requests.size());
  for (size_t first = 0; first < requests.size(); first += kAtATime) {
    std::vector<std::thread> clients;
    for (size_t i = first; i < first + kAtATime; ++i) {
      clients.emplace_back(
          [&, i] { generations[i] = Generate(system.stub(), requests[i]); });
    }
    for (std::thread& client : clients) client.join();
  }
  return generations;
}

// Goes on for some tokens, or to the end if `is_last`.
void GoOn(System& system, v1::GenerateRequest& request, bool is_last) {
  if (request.resume_size() == 0) request.add_resume();
  v1::ResumedChoice& had = *request.mutable_resume(0);
  const v1::GenerateRequest asked = [&] {
    v1::GenerateRequest copy = request;
    if (had.output_ids_size() == 0) copy.clear_resume();
    return copy;
  }();
  Call call(system.stub(), asked);
  while ((is_last || call.generation().ids().size() < kTokensOfEach) &&
         call.Read()) {
    continue;
  }
  if (is_last) {
    EXPECT_TRUE(call.Finish().status.ok());
  }
  for (const int32_t id : call.generation().ids()) had.add_output_ids(id);
}

struct Rounds {
  uint32_t off = 0;
  uint32_t chain = 0;
  uint32_t tree = 0;
  // Requests that began without drafts and had some later.
  int turned = 0;

  void Add(const v1::Speculation& of) {
    off += of.off_rounds();
    chain += of.chain_rounds();
    tree += of.tree_rounds();
    turned += of.off_rounds() >= 4 && of.chain_rounds() + of.tree_rounds() > 0;
  }
};

TEST(E2ePoliciesTest, TextsAreThoseOfPlainDecodingWhateverIsChosen) {
  const std::vector<v1::GenerateRequest> requests = Requests();
  // The longest ones.
  std::vector<v1::GenerateRequest> streams;
  std::vector<Generation> plain;
  for (size_t i = 0; i < kStreams; ++i) {
    streams.push_back(requests[kAtATime * (i + 1) - 1]);
  }
  const std::vector<std::pair<PolicyKind, const char*>> policies = {
      {PolicyKind::kOff, "off"},         {PolicyKind::kFixed, "fixed"},
      {PolicyKind::kEpsilon, "epsilon"}, {PolicyKind::kAdaServe, "adaserve"},
      {PolicyKind::kGoodput, "goodput"}, {PolicyKind::kSlo, "slo"}};
  for (const auto& [kind, name] : policies) {
    SCOPED_TRACE(name);
    System system(With(kind));

    const std::vector<Generation> got = RunAll(system, requests);
    for (v1::GenerateRequest& stream : streams) {
      GoOn(system, stream, kind == PolicyKind::kSlo);
    }

    Rounds rounds;
    if (plain.empty()) plain = got;
    for (size_t i = 0; i < got.size(); ++i) {
      SCOPED_TRACE(i);
      ASSERT_TRUE(got[i].status.ok()) << got[i].status.error_message();
      EXPECT_EQ(got[i].ids(), plain[i].ids());
      EXPECT_EQ(got[i].text(), plain[i].text());
      rounds.Add(got[i].complete->speculation());
    }
    std::printf(
        "{\"bench\": \"policies\", \"policy\": \"%s\", \"off_rounds\": %u, "
        "\"chain_rounds\": %u, \"tree_rounds\": %u, \"turned\": %d}\n",
        name, rounds.off, rounds.chain, rounds.tree, rounds.turned);
    if (kind == PolicyKind::kOff) {
      EXPECT_EQ(rounds.chain + rounds.tree, 0u);
    } else {
      EXPECT_GT(rounds.chain, 0u);
      EXPECT_GT(rounds.tree, 0u);
    }
    // Drafting stops under them and begins again: what the drafter has not
    // seen it is shown then.
    if (kind == PolicyKind::kGoodput || kind == PolicyKind::kSlo) {
      EXPECT_GT(rounds.off, rounds.tree);
      EXPECT_GT(rounds.turned, 0);
    }
    system.ExpectIdle();
  }
  for (size_t i = 0; i < kStreams; ++i) {
    const auto& ids = streams[i].resume(0).output_ids();
    EXPECT_EQ(std::vector<int32_t>(ids.begin(), ids.end()),
              plain[kAtATime * (i + 1) - 1].ids());
  }
}

}  // namespace
}  // namespace bole::e2e
