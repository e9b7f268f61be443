// What a draw should be, from the definitions: double precision, full sorts.
#ifndef BOLE_TESTS_KERNELS_REFERENCE_SAMPLE_ORACLE_H_
#define BOLE_TESTS_KERNELS_REFERENCE_SAMPLE_ORACLE_H_

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "kernels/sampling.h"

namespace bole::testing {

// Logits after bias and penalties. history[i] is the token at position i.
std::vector<double> AdjustedLogits(
    std::span<const float> logits, const SamplingControl& control,
    const std::vector<std::pair<int32_t, float>>& bias,
    const std::vector<int32_t>& history);

// The distribution to draw from: temperature, then top-k, top-p and min-p, each
// renormalised. With temperature 0, certainty.
std::vector<double> FilteredDistribution(const std::vector<double>& logits,
                                         const SamplingControl& control);

// The token of non-zero probability with the largest log probability plus
// noise; with temperature 0, the likeliest.
int32_t OracleDraw(const std::vector<double>& distribution,
                   const SamplingControl& control, int position);

std::vector<double> OracleLogProbs(std::span<const float> logits);

}  // namespace bole::testing

#endif  // BOLE_TESTS_KERNELS_REFERENCE_SAMPLE_ORACLE_H_
