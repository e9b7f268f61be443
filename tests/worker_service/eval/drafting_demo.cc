#include "tests/worker_service/eval/drafting_demo.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "tests/worker_service/eval/demo_model.h"
#include "worker_service/engine/engine.h"

namespace bole::testing_support {
namespace {

constexpr int kTokens = 48;

}  // namespace

DraftingDemo::DraftingDemo() {
  absl::StatusOr<LoadedModel> loaded = LoadModel("models/demo", backend);
  EXPECT_TRUE(loaded.ok()) << loaded.status();
  model = *std::move(loaded);
}

std::vector<GenerateResult> DraftingDemo::Run(
    const std::vector<GenerateRequest>& requests) {
  size_t context = 0;
  for (const GenerateRequest& request : requests) {
    context = std::max(context, request.prompt.size() + kTokens);
  }
  const GenerateOptions options = Tree(32, 8);
  absl::StatusOr<std::unique_ptr<Engine>> engine =
      Engine::Create(model.config, *model.weights, backend,
                     EngineOptionsFor(options, static_cast<int>(context),
                                      model.num_valid_tokens()));
  EXPECT_TRUE(engine.ok()) << engine.status();
  absl::StatusOr<std::vector<GenerateResult>> results =
      Generate(**engine, options, requests, nullptr);
  EXPECT_TRUE(results.ok()) << results.status();
  return *std::move(results);
}

std::vector<GenerateRequest> DemoRequests(size_t first, size_t count,
                                          float temperature) {
  DemoModel& demo = DemoModel::Get();
  const std::vector<std::vector<int32_t>> prompts = demo.Prompts();
  std::vector<GenerateRequest> requests;
  requests.reserve(count);
  for (size_t i = first; i < first + count; ++i) {
    GenerateRequest request{.prompt = prompts[i],
                            .sampling = {},
                            .stop_tokens = demo.model().stop_tokens};
    request.sampling.temperature = temperature;
    request.sampling.seed = i;
    request.sampling.max_tokens = kTokens;
    requests.push_back(request);
  }
  return requests;
}

double MeanAccepted(const std::vector<GenerateResult>& results) {
  int rounds = 0;
  int accepted = 0;
  for (const GenerateResult& result : results) {
    rounds += result.rounds;
    accepted += result.accepted_drafts;
  }
  return 1.0 + static_cast<double>(accepted) / rounds;
}

}  // namespace bole::testing_support
