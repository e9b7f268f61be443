// Random numbers, comparisons and norms of the operators' tests.
#ifndef BOLE_TESTS_TESTING_MATRICES_H_
#define BOLE_TESTS_TESTING_MATRICES_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <random>
#include <span>
#include <vector>

namespace bole::testing {

// Half a unit in the last place of 1: the relative error of one rounding.
inline constexpr double kFloatRoundoff = 1.0 / (1 << 24);

inline float Uniform(std::mt19937& rng, float low, float high) {
  return std::uniform_real_distribution<float>(low, high)(rng);
}

inline void FillNormal(std::mt19937& rng, float deviation,
                       std::span<float> out) {
  std::normal_distribution<float> normal(0, deviation);
  for (float& x : out) x = normal(rng);
}

inline std::vector<float> NormalVector(std::mt19937& rng, size_t size,
                                       float deviation = 1) {
  std::vector<float> x(size);
  FillNormal(rng, deviation, x);
  return x;
}

// Equal as bytes: NaN equals itself, and 0 differs from -0.
template <typename A, typename B>
bool SameBits(const A& a, const B& b) {
  return a.size() == b.size() &&
         std::memcmp(a.data(), b.data(), a.size() * sizeof(*a.data())) == 0;
}

// The larger of two errors; infinite if either is not a number, which
// std::max() would let pass.
inline double LargerError(double a, double b) {
  return std::isnan(a) || std::isnan(b) ? INFINITY : std::max(a, b);
}

// The largest |got - want|; infinite where `got` is not a number.
template <typename Got, typename Want>
double MaxError(const Got& got, const Want& want) {
  double max = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    max = LargerError(max, std::abs(static_cast<double>(got[i]) - want[i]));
  }
  return max;
}

// The rms of got - want over the rms of want; not a number where got or want
// is not, or where want is all 0.
template <typename Got, typename Want>
double RelativeRmsError(const Got& got, const Want& want) {
  double error = 0;
  double norm = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double difference = static_cast<double>(got[i]) - want[i];
    error += difference * difference;
    norm += static_cast<double>(want[i]) * want[i];
  }
  return std::sqrt(error / norm);
}

}  // namespace bole::testing

#endif  // BOLE_TESTS_TESTING_MATRICES_H_
