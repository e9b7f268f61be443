#include "tests/worker_service/eval/dense_runs.h"

#include <memory>
#include <utility>

#include "gtest/gtest.h"
#include "tests/testing/random_tree.h"

namespace bole::testing_support {

using ::bole::testing::UniformInt;

DenseModel& DenseModel::Get() {
  static DenseModel& dense = *[] {
    auto* loading = new DenseModel;
    absl::StatusOr<LoadedModel> loaded =
        LoadModel("tests/golden/dense", loading->backend);
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    loading->model = *std::move(loaded);
    return loading;
  }();
  return dense;
}

absl::StatusOr<std::vector<GenerateResult>> TryRunDense(
    const GenerateOptions& options, const EngineOptions& engine_options,
    const std::vector<GenerateRequest>& requests,
    const TokenCallback& on_token) {
  DenseModel& dense = DenseModel::Get();
  absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Create(
      dense.model.config, *dense.model.weights, dense.backend, engine_options);
  if (!engine.ok()) return engine.status();
  return Generate(**engine, options, requests, on_token);
}

std::vector<GenerateResult> RunDense(
    const GenerateOptions& options,
    const std::vector<GenerateRequest>& requests,
    const TokenCallback& on_token) {
  absl::StatusOr<std::vector<GenerateResult>> results =
      TryRunDense(options, EngineOptionsFor(options, kMaxContext, kValidTokens),
                  requests, on_token);
  EXPECT_TRUE(results.ok()) << results.status();
  return results.ok() ? *std::move(results)
                      : std::vector<GenerateResult>(requests.size());
}

GenerateRequest RandomRequest(std::mt19937& rng, int prompt_length,
                              int max_tokens) {
  GenerateRequest request;
  for (int i = 0; i < prompt_length; ++i) {
    request.prompt.push_back(UniformInt(rng, 0, 511));
  }
  request.sampling.temperature = 0;
  request.sampling.max_tokens = max_tokens;
  return request;
}

std::vector<GenerateRequest> RandomRequests(std::mt19937& rng, int count) {
  std::vector<GenerateRequest> requests;
  for (int i = 0; i < count; ++i) {
    requests.push_back(
        RandomRequest(rng, UniformInt(rng, 1, 90), UniformInt(rng, 1, 40)));
    requests.back().sampling.temperature = i % 2 == 0 ? 0.0f : 1.0f;
    requests.back().sampling.seed = i;
  }
  return requests;
}

int TotalAccepted(const std::vector<GenerateResult>& results) {
  int accepted = 0;
  for (const GenerateResult& result : results) {
    accepted += result.accepted_drafts;
  }
  return accepted;
}

}  // namespace bole::testing_support
