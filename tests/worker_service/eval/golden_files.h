// Checkpoints with reference outputs, and how far outputs are from them.
#ifndef BOLE_TESTS_WORKER_SERVICE_EVAL_GOLDEN_FILES_H_
#define BOLE_TESTS_WORKER_SERVICE_EVAL_GOLDEN_FILES_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "worker_service/eval/forward.h"

namespace bole::testing_support {

struct GoldenCheckpoint {
  const char* name;
  const char* folder;  // The checkpoint.
  const char* golden;  // Its reference outputs.
};

// Every one of tests/golden.
inline constexpr GoldenCheckpoint kGoldenCheckpoints[] = {
    {"demo", "models/demo", "tests/golden/demo/golden.safetensors"},
    {"dense", "tests/golden/dense", "tests/golden/dense/golden.safetensors"},
    {"tied", "tests/golden/dense_flat_tied_bf16",
     "tests/golden/dense_flat_tied_bf16/golden.safetensors"},
    {"moe", "tests/golden/moe", "tests/golden/moe/golden.safetensors"},
};

// Tensors under the names of tests/golden/README.md.
struct Golden {
  std::map<std::string, std::vector<float>> floats;
  std::map<std::string, std::vector<int32_t>> ints;

  // The forward that they are the outputs of, in chunks of that many tokens.
  ForwardOptions Inputs(int chunk, TreeSolver solver) const;
};

Golden ReadGolden(const std::string& path);

// |got - want| of a tensor: the rms of all, and of the median row, over the rms
// of the reference's tensor; and the largest.
struct TensorError {
  double rms = 0;
  double median_row = 0;
  double largest = 0;
};

// Every tensor of floats; infinite where one is missing or not a number.
// Drafting steps are compared up to where another token was drafted.
std::map<std::string, TensorError> ErrorsOf(const ForwardResult& result,
                                            const Golden& golden);

}  // namespace bole::testing_support

#endif  // BOLE_TESTS_WORKER_SERVICE_EVAL_GOLDEN_FILES_H_
