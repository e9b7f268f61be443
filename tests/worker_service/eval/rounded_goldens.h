// What of bfloat16's outputs is noise: a bound on their distance from the
// reference outputs.
#ifndef BOLE_TESTS_WORKER_SERVICE_EVAL_ROUNDED_GOLDENS_H_
#define BOLE_TESTS_WORKER_SERVICE_EVAL_ROUNDED_GOLDENS_H_

#include <map>
#include <string>

#include "tests/worker_service/eval/golden_files.h"
#include "tests/worker_service/eval/rounded_backend.h"

namespace bole::testing_support {

// The errors of a forward of that checkpoint, loaded into `backend`.
std::map<std::string, TensorError> RunGolden(const GoldenCheckpoint& checkpoint,
                                             Backend& backend, int chunk,
                                             TreeSolver solver);

// The largest errors of some samples of RoundedBackend's.
//
// A right backend of bfloat16 rounds the same values at the same places, to
// half a unit in the last place (a relative 2^-9 at most). Which way each is
// rounded depends on the last bits of sums in another order, so its error is
// one more sample of the same noise: very many roundings, passed on by the same
// layers. How much the layers make of them is not modelled but measured so.
std::map<std::string, TensorError> NoiseOf(const GoldenCheckpoint& checkpoint);

// How many times its noise a tensor may be off. The median row differs little
// from sample to sample. The rms is that of the few rows that layers with
// random weights make most of, and twice as large in one sample as in another.
// Attention on tensor cores also rounds its weights, which are the smaller part
// of what a layer rounds.
inline constexpr double kMostOfNoise = 1.5;
inline constexpr double kMostOfNoiseRms = 3;

// What is noise of the same tensors where both compute in float32, in different
// orders: some hundred roundings of 2^-24, where random weights make 20 times
// of it (what they make of bfloat16's), a thousandth of the tensor's rms at
// most.
std::map<std::string, TensorError> NoiseOfFloat(
    std::map<std::string, TensorError> of_bfloat16);

// How much of what it may be off a tensor is off, in the worst of all tensors:
// more than 1 is wrong. `worst` is told which tensor that is.
double ShareOfBound(const std::map<std::string, TensorError>& errors,
                    const std::map<std::string, TensorError>& noise,
                    std::string* worst);

}  // namespace bole::testing_support

#endif  // BOLE_TESTS_WORKER_SERVICE_EVAL_ROUNDED_GOLDENS_H_
