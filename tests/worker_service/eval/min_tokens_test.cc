// Texts whose first tokens may not be stop tokens, against the definition: one
// full forward for each token.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "tests/kernels/reference/sample_batch.h"
#include "tests/kernels/reference/sample_oracle.h"
#include "tests/worker_service/eval/demo_model.h"
#include "tests/worker_service/eval/dense_runs.h"
#include "worker_service/eval/forward.h"
#include "worker_service/eval/generator.h"

namespace bole::testing_support {
namespace {

constexpr int kMaxTokens = 24;

// Half of the tokens that may be drawn.
const std::vector<int32_t>& Stops() {
  static const auto& stops = *new std::vector<int32_t>{0, 3, 5, 6};
  return stops;
}

bool IsStop(int32_t token) {
  return std::find(Stops().begin(), Stops().end(), token) != Stops().end();
}

// The logits of what follows `ids`, of the tokens that may be drawn.
std::vector<double> LogitsAfter(const std::vector<int32_t>& ids) {
  DenseModel& dense = DenseModel::Get();
  const absl::StatusOr<ForwardResult> forward = RunForward(
      dense.model, dense.backend,
      {.ids = ids, .tree = {}, .chunk = 0, .solver = TreeSolver::kBlocks});
  EXPECT_TRUE(forward.ok()) << forward.status();
  const std::span<const float> last =
      std::span(forward->floats.at("logits").values)
          .last(dense.model.config.vocab_size)
          .first(kValidTokens);
  return {last.begin(), last.end()};
}

std::vector<int32_t> Define(const GenerateRequest& request) {
  SamplingControl control = testing::PlainControl(request.sampling.seed);
  control.temperature = request.sampling.temperature;
  std::vector<int32_t> ids = request.prompt;
  std::vector<int32_t> output;
  while (std::ssize(output) < kMaxTokens) {
    std::vector<double> logits = LogitsAfter(ids);
    if (std::ssize(output) < request.sampling.min_tokens) {
      for (const int32_t token : Stops()) {
        logits[token] = -std::numeric_limits<double>::infinity();
      }
    }
    const int32_t token =
        testing::OracleDraw(testing::FilteredDistribution(logits, control),
                            control, static_cast<int>(ids.size()));
    ids.push_back(token);
    output.push_back(token);
    if (IsStop(token)) break;
  }
  return output;
}

std::vector<GenerateRequest> Requests() {
  std::mt19937 rng(1);
  std::vector<GenerateRequest> requests;
  for (const int min_tokens : {0, 1, 6, 15, kMaxTokens}) {
    for (const float temperature : {0.0f, 1.0f}) {
      requests.push_back(RandomRequest(rng, 11, kMaxTokens));
      requests.back().stop_tokens = Stops();
      requests.back().sampling.min_tokens = min_tokens;
      requests.back().sampling.temperature = temperature;
      requests.back().sampling.seed = requests.size();
    }
  }
  return requests;
}

TEST(MinTokensTest, TextsAreAsDefinedWhateverIsProposed) {
  const std::vector<GenerateRequest> requests = Requests();
  std::vector<std::vector<int32_t>> want;
  int stopped = 0;
  for (const GenerateRequest& request : requests) {
    want.push_back(Define(request));
    stopped += IsStop(want.back().back()) ? 1 : 0;
    EXPECT_GE(std::ssize(want.back()), request.sampling.min_tokens);
  }
  EXPECT_GE(stopped, 6);
  GenerateOptions leased = Tree(15, 4);
  leased.lease_rounds = 4;

  int accepted = 0;
  for (const GenerateOptions& options :
       {Off(4), Chain(3, 4), Tree(15, 4), leased}) {
    const std::vector<GenerateResult> results = RunDense(options, requests);

    for (size_t i = 0; i < requests.size(); ++i) {
      EXPECT_EQ(Tokens(results[i]), want[i])
          << i << ", min_tokens " << requests[i].sampling.min_tokens;
    }
    accepted += TotalAccepted(results);
  }
  EXPECT_GT(accepted, 0);
}

}  // namespace
}  // namespace bole::testing_support
