// What the sampler is tried on.
#ifndef BOLE_TESTS_KERNELS_CUDA_SAMPLING_SAMPLE_CASES_H_
#define BOLE_TESTS_KERNELS_CUDA_SAMPLING_SAMPLE_CASES_H_

#include <cstdint>
#include <random>
#include <vector>

#include "kernels/sampling.h"
#include "tests/kernels/reference/sample_batch.h"
#include "tests/testing/random_tree.h"

namespace bole::testing {

inline constexpr int kSampleSlots = 3;

struct SampleCase {
  std::vector<SampledRequest> requests;
  int vocabulary;
  int num_valid_tokens;
  std::vector<int32_t> counts;  // [kSampleSlots, vocabulary]
};

template <typename T>
T OneOf(std::mt19937& rng, const std::vector<T>& values) {
  return values[UniformInt(rng, 0, static_cast<int>(values.size()) - 1)];
}

// Up to 6 requests with trees, penalties, biases, stop tokens and all filters;
// a vocabulary of 4 .. max_vocabulary, of which the last few are not valid.
SampleCase RandomSampleCase(std::mt19937& rng, int max_vocabulary);

// Token counts of every slot: tokens of the prompt, of the output, of both or
// none.
std::vector<int32_t> RandomCounts(std::mt19937& rng, int vocabulary);

// A request of one node.
SampledRequest OneRow(std::vector<float> logits,
                      const SamplingControl& control);

// All equal, all but two equal, of every kind of float; and others.
std::vector<std::vector<float>> HostileRows(std::mt19937& rng, int vocabulary);

// Every control at its limits.
std::vector<SamplingControl> ExtremeControls();
// And what people ask for: few of a full vocabulary's tokens, many, and all.
std::vector<SamplingControl> ExtremeAndUsualControls();

}  // namespace bole::testing

#endif  // BOLE_TESTS_KERNELS_CUDA_SAMPLING_SAMPLE_CASES_H_
