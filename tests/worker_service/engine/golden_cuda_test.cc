// Every checkpoint with reference outputs, on a GPU: the whole forward against
// them, in both types of activations.
#include <cstdio>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/kernels/cuda/cuda_test.h"
#include "tests/worker_service/eval/golden_files.h"
#include "tests/worker_service/eval/rounded_goldens.h"

namespace bole::testing_support {
namespace {

class GoldenCudaTest : public testing::CudaTest {
 protected:
  using Errors = std::map<std::string, TensorError>;

  void Report(const GoldenCheckpoint& checkpoint, int chunk, double share,
              const std::string& worst, const Errors& errors) {
    std::printf(
        "  %s in chunks of %d: %.2f of the bound of %s; logits off by "
        "%.2e of their rms\n",
        checkpoint.name, chunk, share, worst.c_str(), errors.at("logits").rms);
    const std::string key = absl::StrCat(checkpoint.name, "_", chunk);
    RecordProperty(key + "_share_of_bound", absl::StrCat(share));
    RecordProperty(key + "_logits_rms", absl::StrCat(errors.at("logits").rms));
    RecordProperty(key + "_logits_largest",
                   absl::StrCat(errors.at("logits").largest));
  }
};

TEST_P(GoldenCudaTest, EveryTensorIsTheReferencesUpToRounding) {
  for (const GoldenCheckpoint& checkpoint : kGoldenCheckpoints) {
    SCOPED_TRACE(checkpoint.name);
    const Errors bfloat16 = NoiseOf(checkpoint);
    const Errors noise = is_float() ? NoiseOfFloat(bfloat16) : bfloat16;
    for (const int chunk : {0, 37}) {
      for (const TreeSolver solver :
           {TreeSolver::kBlocks, TreeSolver::kNeumann}) {
        const Errors errors = RunGolden(checkpoint, *cuda_, chunk, solver);
        ASSERT_FALSE(errors.empty());
        std::string worst;

        const double share = ShareOfBound(errors, noise, &worst);

        EXPECT_LE(share, 1) << worst << ", chunks of " << chunk << ", solver "
                            << static_cast<int>(solver);
        Report(checkpoint, chunk, share, worst, errors);
      }
    }
  }
}

BOLE_FOR_EACH_ELEMENT(GoldenCudaTest);

}  // namespace
}  // namespace bole::testing_support
