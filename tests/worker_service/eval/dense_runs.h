// Runs of a small random checkpoint of which only eight tokens may be drawn: so
// few that a tree's guesses are often right.
#ifndef BOLE_TESTS_WORKER_SERVICE_EVAL_DENSE_RUNS_H_
#define BOLE_TESTS_WORKER_SERVICE_EVAL_DENSE_RUNS_H_

#include <random>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/reference/reference_backend.h"
#include "worker_service/engine/engine.h"
#include "worker_service/eval/generator.h"
#include "worker_service/loading/loaded_model.h"

namespace bole::testing_support {

inline constexpr int kValidTokens = 8;
inline constexpr int kMaxContext = 512;

// The checkpoint, loaded once for the process.
struct DenseModel {
  static DenseModel& Get();

  ReferenceBackend backend{/*num_threads=*/1};
  LoadedModel model;
};

// On a new engine.
absl::StatusOr<std::vector<GenerateResult>> TryRunDense(
    const GenerateOptions& options, const EngineOptions& engine_options,
    const std::vector<GenerateRequest>& requests,
    const TokenCallback& on_token = nullptr);

// With the engine that the options need. An error fails the test.
std::vector<GenerateResult> RunDense(
    const GenerateOptions& options,
    const std::vector<GenerateRequest>& requests,
    const TokenCallback& on_token = nullptr);

// Greedy, a prompt of any of the model's 512 tokens.
GenerateRequest RandomRequest(std::mt19937& rng, int prompt_length,
                              int max_tokens);

// Greedy and drawn by turns, of different lengths.
std::vector<GenerateRequest> RandomRequests(std::mt19937& rng, int count);

int TotalAccepted(const std::vector<GenerateResult>& results);

}  // namespace bole::testing_support

#endif  // BOLE_TESTS_WORKER_SERVICE_EVAL_DENSE_RUNS_H_
