// Every checkpoint with reference outputs: the whole forward against them.
#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/reference/reference_backend.h"
#include "tests/worker_service/eval/golden_files.h"
#include "worker_service/eval/forward.h"
#include "worker_service/loading/loaded_model.h"

namespace bole::testing_support {
namespace {

// Both sides compute in float32, in different orders, through at most eight
// layers. The bound is relative to the largest magnitude of the tensor.
constexpr double kTolerance = 1e-3;

struct Case {
  GoldenCheckpoint checkpoint;
  int chunk;  // 0: whole.
  TreeSolver solver;
};

class GoldenTest : public testing::TestWithParam<Case> {};

void ExpectNear(const std::string& name, const std::vector<float>& got,
                const std::vector<float>& want) {
  ASSERT_EQ(got.size(), want.size()) << name;
  double largest = 0;
  for (float value : want) largest = std::max(largest, std::abs(double{value}));
  double error = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double difference = std::abs(double{got[i]} - want[i]);
    error = std::max(error, std::isnan(difference) ? INFINITY : difference);
  }
  EXPECT_LE(error, kTolerance * largest) << name;
}

TEST_P(GoldenTest, EveryTensorAgreesWithTheReference) {
  const Case& c = GetParam();
  const Golden golden = ReadGolden(c.checkpoint.golden);
  ReferenceBackend backend(/*num_threads=*/2);
  absl::StatusOr<LoadedModel> model = LoadModel(c.checkpoint.folder, backend);
  ASSERT_TRUE(model.ok()) << model.status();

  const absl::StatusOr<ForwardResult> result =
      RunForward(*model, backend, golden.Inputs(c.chunk, c.solver));

  ASSERT_TRUE(result.ok()) << result.status();
  for (const auto& [name, want] : golden.ints) {
    ASSERT_TRUE(result->ints.contains(name)) << name;
    EXPECT_EQ(result->ints.at(name), want) << name;
  }
  for (const auto& [name, want] : golden.floats) {
    ASSERT_TRUE(result->floats.contains(name)) << name;
    ExpectNear(name, result->floats.at(name).values, want);
  }
}

// Cuts at multiples of 64 positions change nothing, to the last bit.
TEST(PrefillGridTest, ChunksOnTheGridGiveTheBitsOfTheWhole) {
  const std::string directory = "tests/golden/dense_flat_tied_bf16";
  const Golden golden = ReadGolden(directory + "/golden.safetensors");
  ReferenceBackend backend(/*num_threads=*/2);
  absl::StatusOr<LoadedModel> model = LoadModel(directory, backend);
  ASSERT_TRUE(model.ok()) << model.status();
  const auto run = [&](int chunk) {
    return RunForward(*model, backend,
                      {.ids = golden.ints.at("ids"),
                       .tree = {},
                       .chunk = chunk,
                       .solver = TreeSolver::kBlocks});
  };

  const absl::StatusOr<ForwardResult> whole = run(0);

  ASSERT_TRUE(whole.ok()) << whole.status();
  for (const int chunk : {64, 128}) {
    const absl::StatusOr<ForwardResult> split = run(chunk);
    ASSERT_TRUE(split.ok()) << split.status();
    for (const auto& [name, want] : whole->floats) {
      EXPECT_TRUE(split->floats.at(name).values == want.values)
          << name << ", chunks of " << chunk;
    }
  }
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const GoldenCheckpoint& checkpoint : kGoldenCheckpoints) {
    for (int chunk : {0, 64, 1, 37}) {
      cases.push_back({checkpoint, chunk, TreeSolver::kBlocks});
    }
    cases.push_back({checkpoint, 0, TreeSolver::kNeumann});
    cases.push_back({checkpoint, 0, TreeSolver::kSerial});
  }
  return cases;
}

std::string NameOf(const testing::TestParamInfo<Case>& info) {
  const char* solvers[] = {"blocks", "neumann", "serial"};
  return std::string(info.param.checkpoint.name) + "_chunk" +
         std::to_string(info.param.chunk) + "_" +
         solvers[static_cast<int>(info.param.solver)];
}

INSTANTIATE_TEST_SUITE_P(All, GoldenTest, testing::ValuesIn(Cases()), NameOf);

}  // namespace
}  // namespace bole::testing_support
