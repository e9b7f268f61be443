#include "worker_service/calibration/least_squares.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace bole {
namespace {

constexpr int kReweightings = 6;
constexpr int kMaxSweeps = 20'000;
// The descent ends when no step of a sweep changes the error by more than this.
constexpr double kEnough = 1e-7;
// The share of the diagonal that is added to it.
constexpr double kRidge = 1e-7;
// Residuals above kFarOff times their median count less, but never those below
// kLeastFarOff.
constexpr double kFarOff = 2.5;
constexpr double kLeastFarOff = 0.01;

double Dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// Minimises x'Gx / 2 - b'x over x >= 0 by coordinate descent.
void Descend(const std::vector<std::vector<double>>& gram,
             const std::vector<double>& target, std::vector<double>& x) {
  const size_t columns = x.size();
  for (int sweep = 0; sweep < kMaxSweeps; ++sweep) {
    double change = 0;
    for (size_t j = 0; j < columns; ++j) {
      if (gram[j][j] <= 0) continue;
      const double gradient = Dot(gram[j], x) - target[j];
      const double next = std::max(0.0, x[j] - gradient / gram[j][j]);
      const double step = next - x[j];
      change = std::max(change, step * step * gram[j][j]);
      x[j] = next;
    }
    if (change < kEnough * kEnough) return;
  }
}

// The normal equations of rows whose product with the factors should be 1.
struct NormalEquations {
  explicit NormalEquations(size_t columns)
      : gram(columns, std::vector<double>(columns, 0)), target(columns, 0) {}

  void Add(const std::vector<double>& row, double weight) {
    for (size_t j = 0; j < row.size(); ++j) {
      const double weighted = weight * row[j];
      target[j] += weighted;
      for (size_t k = 0; k < row.size(); ++k) gram[j][k] += weighted * row[k];
    }
  }

  std::vector<std::vector<double>> gram;
  std::vector<double> target;
};

std::vector<double> WeightsOf(const std::vector<std::vector<double>>& rows,
                              const std::vector<double>& x) {
  std::vector<double> residuals;
  residuals.reserve(rows.size());
  for (const std::vector<double>& row : rows) {
    residuals.push_back(std::abs(Dot(row, x) - 1));
  }
  std::vector<double> sorted = residuals;
  const auto middle =
      sorted.begin() + static_cast<ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  const double far_off = std::max(kFarOff * *middle, kLeastFarOff);
  for (double& weight : residuals) {
    weight = weight > far_off ? far_off / weight : 1;
  }
  return residuals;
}

}  // namespace

std::vector<double> FitToOnes(const std::vector<std::vector<double>>& rows) {
  if (rows.empty()) return {};
  const size_t columns = rows[0].size();
  std::vector<double> x(columns, 0);
  std::vector<double> weights(rows.size(), 1);
  for (int round = 0; round < kReweightings; ++round) {
    NormalEquations equations(columns);
    for (size_t i = 0; i < rows.size(); ++i) equations.Add(rows[i], weights[i]);
    for (size_t j = 0; j < columns; ++j) equations.gram[j][j] *= 1 + kRidge;
    Descend(equations.gram, equations.target, x);
    weights = WeightsOf(rows, x);
  }
  return x;
}

}  // namespace bole
