#include "tests/worker_service/eval/rounded_goldens.h"

#include <algorithm>
#include <cmath>

#include "gtest/gtest.h"
#include "worker_service/loading/loaded_model.h"

namespace bole::testing_support {

std::map<std::string, TensorError> RunGolden(const GoldenCheckpoint& checkpoint,
                                             Backend& backend, int chunk,
                                             TreeSolver solver) {
  const Golden golden = ReadGolden(checkpoint.golden);
  const absl::StatusOr<LoadedModel> model =
      LoadModel(checkpoint.folder, backend);
  EXPECT_TRUE(model.ok()) << model.status();
  if (!model.ok()) return {};
  const absl::StatusOr<ForwardResult> result =
      RunForward(*model, backend, golden.Inputs(chunk, solver));
  EXPECT_TRUE(result.ok()) << result.status();
  if (!result.ok()) return {};
  return ErrorsOf(*result, golden);
}

std::map<std::string, TensorError> NoiseOf(const GoldenCheckpoint& checkpoint) {
  constexpr int kSamples = 8;
  std::map<std::string, TensorError> noise;
  for (int seed = 0; seed < kSamples; ++seed) {
    RoundedBackend backend(/*num_threads=*/2, seed);
    for (const auto& [name, error] :
         RunGolden(checkpoint, backend, /*chunk=*/0, TreeSolver::kBlocks)) {
      TensorError& largest = noise[name];
      largest = {.rms = std::max(largest.rms, error.rms),
                 .median_row = std::max(largest.median_row, error.median_row),
                 .largest = std::max(largest.largest, error.largest)};
    }
  }
  return noise;
}

std::map<std::string, TensorError> NoiseOfFloat(
    std::map<std::string, TensorError> of_bfloat16) {
  for (auto& [name, error] : of_bfloat16) {
    error.rms = 1e-3 / kMostOfNoiseRms;
    error.median_row = 1e-3 / kMostOfNoise;
  }
  return of_bfloat16;
}

double ShareOfBound(const std::map<std::string, TensorError>& errors,
                    const std::map<std::string, TensorError>& noise,
                    std::string* worst) {
  double share = 0;
  for (const auto& [name, of_noise] : noise) {
    const auto found = errors.find(name);
    double of_tensor = INFINITY;
    if (found != errors.end()) {
      const TensorError& error = found->second;
      of_tensor =
          std::max(error.rms / (kMostOfNoiseRms * of_noise.rms),
                   error.median_row / (kMostOfNoise * of_noise.median_row));
    }
    if (!(of_tensor <= share)) {
      share = of_tensor;
      *worst = name;
    }
  }
  return share;
}

}  // namespace bole::testing_support
