#include "worker_service/calibration/fit.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <utility>

#include "worker_service/calibration/least_squares.h"

namespace bole {
namespace {

using Axis = StepCosts::Axis;
using Term = StepCosts::Term;
// A function of the quantities of a term's axes, in the order of the axes.
using Shape = std::function<double(std::span<const double>)>;

// A function of the quantities, for which the fit finds one factor. Functions
// of one term have the same axes.
struct Basis {
  std::string term;
  Term unit;  // The largest time on its grid is kUnit.
};
constexpr double kUnit = 1e6;
constexpr double kMinRowRatio = 3.9;  // Between neighbouring unpadded points.

double Get(const RoundQuantities& quantities, Quantity quantity) {
  return quantities[static_cast<size_t>(quantity)];
}

// Calls `visit` for each point of the grid, in the order of the times.
void VisitGrid(std::span<const Axis> axes,
               const std::function<void(std::span<const double>)>& visit) {
  std::vector<double> point(axes.size());
  const std::function<void(size_t)> go = [&](size_t axis) {
    if (axis == axes.size()) return visit(point);
    for (const double value : axes[axis].points) {
      point[axis] = value;
      go(axis + 1);
    }
  };
  go(0);
}

// 0 up to `low`, 1 from `high` on, and linear between them.
double Ramp(double x, double low, double high) {
  return std::clamp((x - low) / (high - low), 0.0, 1.0);
}

class BasisList {
 public:
  BasisList(std::span<const Observation> observations,
            const std::vector<int>& row_buckets, const Experts& experts)
      : observations_(observations), row_buckets_(row_buckets) {
    AddForward();
    AddExperts(experts);
    AddForest();
    AddAttention();
    AddDraft();
    AddTails();
    AddPrefill();
    AddBeside();
  }

  const std::vector<Basis>& all() const { return all_; }

 private:
  double Most(Quantity quantity) const {
    double most = 0;
    for (const Observation& observation : observations_) {
      most = std::max(most, Get(observation.quantities, quantity));
    }
    return most;
  }
  // The observed values other than 0, and 1, in ascending order.
  std::vector<double> Observed(Quantity quantity) const {
    std::set<double> values = {1};
    for (const Observation& observation : observations_) {
      const double value = Get(observation.quantities, quantity);
      if (value > 0) values.insert(value);
    }
    return {values.begin(), values.end()};
  }
  // The observed buckets of rows; where rows are not padded, observed numbers
  // of rows at a ratio of at least kMinRowRatio, including the largest.
  std::vector<double> RowPoints(Quantity quantity) const {
    std::vector<double> points;
    for (double rows : Observed(quantity)) {
      const auto bucket =
          std::lower_bound(row_buckets_.begin(), row_buckets_.end(), rows);
      const bool padded = bucket != row_buckets_.end();
      if (padded) rows = *bucket;
      if (!points.empty() && rows <= points.back()) continue;
      if (!padded && !points.empty() && rows < kMinRowRatio * points.back()) {
        continue;
      }
      points.push_back(rows);
    }
    const double most = Most(quantity);
    if (points.back() < most) {
      if (points.size() > 1 && most < kMinRowRatio * points.back()) {
        points.pop_back();
      }
      points.push_back(most);
    }
    return points;
  }

  // Those of `points` at a ratio of at least kMinRowRatio, and always the first
  // and the last.
  static std::vector<double> Sparse(const std::vector<double>& points) {
    std::vector<double> sparse = {points.front()};
    for (const double point : points) {
      if (point >= kMinRowRatio * sparse.back()) sparse.push_back(point);
    }
    if (sparse.back() < points.back()) sparse.push_back(points.back());
    return sparse;
  }

  // Adds `shape`, scaled to a largest time of kUnit on the grid, unless it is 0
  // everywhere there. REQUIRES: it is nowhere negative.
  void Add(const std::string& term, const std::vector<Axis>& axes,
           const Shape& shape) {
    Basis basis{.term = term, .unit = {.name = term, .axes = axes}};
    double most = 0;
    VisitGrid(axes, [&](std::span<const double> point) {
      const double value = shape(point);
      most = std::max(most, value);
      basis.unit.microseconds.push_back(value);
    });
    if (most <= 0) return;
    for (double& value : basis.unit.microseconds) value *= kUnit / most;
    all_.push_back(std::move(basis));
  }
  void AddConstant(const std::string& term, const std::vector<Axis>& axes) {
    Add(term, axes, [](std::span<const double>) { return 1; });
  }
  // For each interval between two points of the axis `along`, adds `shape`
  // times a ramp from 0 at the first point to 1 at the second.
  void AddRamps(
      const std::string& term, const std::vector<Axis>& axes, size_t along = 0,
      const Shape& shape = [](auto) { return 1; }) {
    const std::vector<double>& points = axes[along].points;
    for (size_t i = 0; i + 1 < points.size(); ++i) {
      Add(term, axes, [&](std::span<const double> at) {
        return shape(at) * Ramp(at[along], points[i], points[i + 1]);
      });
    }
  }

  void AddForward() {
    const std::vector<Axis> axes = {
        {Quantity::kForwardRows, RowPoints(Quantity::kForwardRows)}};
    AddConstant("forward", axes);
    AddRamps("forward", axes);
  }

  void AddExperts(const Experts& experts) {
    const double most = Most(Quantity::kForwardRows);
    if (experts.count == 0 || most <= 1) return;
    std::vector<double> points = {1};
    for (int64_t low = 2; low < most; low *= 2) {
      points.push_back(low);
      if (low > 2 && 0.75 * low < most) points.push_back(1.5 * low);
    }
    Add("experts", {{Quantity::kExactRows, std::move(points)}},
        [&](std::span<const double> at) { return experts.ReadBy(at[0]); });
  }

  void AddForest() {
    for (const auto& [term, quantity] :
         {std::pair("rows", Quantity::kRows),
          std::pair("requests", Quantity::kRequests)}) {
      const double most = Most(quantity);
      if (most <= 1) continue;
      Add(term, {{quantity, {0, most}}},
          [](std::span<const double> at) { return at[0]; });
    }
    const double most = Most(Quantity::kDraftRows);
    if (most <= 1) return;
    const std::vector<Axis> tree = {{Quantity::kDraftRows, {1, most}}};
    AddConstant("tree", tree);
    AddRamps("tree", tree);
  }

  void AddAttention() {
    const double most = Most(Quantity::kKvTokens);
    if (most <= 0) return;
    const std::vector<Axis> axes = {
        {Quantity::kKvTokens, {0, most}},
        {Quantity::kRows, {1, std::max(2.0, Most(Quantity::kRows))}},
        {Quantity::kRequests, Observed(Quantity::kRequests)}};
    Add("attention", axes, [](std::span<const double> at) { return at[0]; });
    // Each node attends to the tokens of its own request.
    Add("attention", axes,
        [](std::span<const double> at) { return at[0] * at[1] / at[2]; });
  }

  void AddDraft() {
    if (Most(Quantity::kDraftDepth) == 0) return;
    const std::vector<Axis> axes = {
        {Quantity::kDraftDepth,
         {1, std::max(2.0, Most(Quantity::kDraftDepth))}},
        {Quantity::kDraftTopK, Observed(Quantity::kDraftTopK)},
        {Quantity::kRequests, Observed(Quantity::kRequests)}};
    AddConstant("draft", axes);
    if (axes[2].points.size() > 1) {
      Add("draft", axes, [](std::span<const double> at) { return at[2]; });
    }
    if (axes[1].points.size() > 1) {
      Add("draft", axes,
          [](std::span<const double> at) { return at[1] * at[2]; });
    }
    // Every further level runs top_k rows of each request.
    Add("draft", axes, [](std::span<const double> at) { return at[0] - 1; });
    const double most = axes[1].points.back() * axes[2].points.back();
    for (int64_t low = 1; low < most; low *= 4) {
      const double high = low * 4 < most ? low * 4 : most;
      Add("draft", axes, [=](std::span<const double> at) {
        return (at[0] - 1) * Ramp(at[1] * at[2], low, high);
      });
    }
  }

  void AddTails() {
    const double most = Most(Quantity::kTailTokens);
    if (most <= 1) return;
    const std::vector<Axis> axes = {
        {Quantity::kTailTokens, RowPoints(Quantity::kTailTokens)}};
    AddConstant("tails", axes);
    AddRamps("tails", axes);
  }

  void AddPrefill() {
    const double most = Most(Quantity::kPrefillTokens);
    if (most <= 1) return;
    const std::vector<Axis> axes = {
        {Quantity::kPrefillTokens, RowPoints(Quantity::kPrefillTokens)}};
    AddConstant("prefill", axes);
    // A chunk's tokens attend to those before them, and kernels change with its
    // size.
    AddRamps("prefill", axes);
    const double most_kv = Most(Quantity::kPrefillKvTokens);
    if (most_kv <= 0) return;
    const std::vector<Axis> before = {
        {Quantity::kPrefillKvTokens, {0, most_kv}},
        {Quantity::kPrefillTokens, Sparse(axes[0].points)}};
    const Shape kv = [](std::span<const double> at) { return at[0]; };
    Add("prefill_attention", before, kv);
    AddRamps("prefill_attention", before, /*along=*/1, kv);
  }

  // A chunk in a round with a forest costs more than its rows: such a round is
  // queued operator by operator and not as a graph, and its mixers run twice.
  void AddBeside() {
    const bool any = std::any_of(
        observations_.begin(), observations_.end(), [](const auto& of) {
          return Get(of.quantities, Quantity::kRequests) > 0 &&
                 Get(of.quantities, Quantity::kPrefillTokens) > 0;
        });
    if (!any) return;
    Add("beside",
        {{Quantity::kRequests, {1, std::max(2.0, Most(Quantity::kRequests))}},
         {Quantity::kPrefillTokens, {0, 1}}},
        [](std::span<const double> at) { return at[1]; });
  }

  const std::span<const Observation> observations_;
  const std::vector<int>& row_buckets_;
  std::vector<Basis> all_;
};

// The time of a round according to `basis`, as a share of kUnit.
double ValueOf(const Basis& basis, const RoundQuantities& quantities,
               const std::vector<int>& row_buckets) {
  const StepCosts unit({basis.unit}, row_buckets);
  return static_cast<double>(unit.TimeOf(quantities).count()) / (kUnit * 1e3);
}

StepCosts Merge(const std::vector<Basis>& bases,
                std::span<const double> factors,
                const std::vector<int>& row_buckets) {
  std::vector<Term> terms;
  for (size_t j = 0; j < bases.size(); ++j) {
    const Term& unit = bases[j].unit;
    if (terms.empty() || terms.back().name != bases[j].term) {
      terms.push_back(unit);
      terms.back().microseconds.assign(unit.microseconds.size(), 0);
    }
    std::vector<double>& times = terms.back().microseconds;
    for (size_t i = 0; i < times.size(); ++i) {
      times[i] += factors[j] * unit.microseconds[i] / kUnit;
    }
  }
  std::erase_if(terms, [](const Term& term) {
    return *std::max_element(term.microseconds.begin(),
                             term.microseconds.end()) <= 0;
  });
  return {std::move(terms), row_buckets};
}

}  // namespace

double Experts::ReadBy(double rows) const {
  const double missed = 1 - static_cast<double>(per_token) / count;
  return count * (1 - std::pow(missed, rows));
}

FittedCosts FitCosts(std::span<const Observation> observations,
                     const std::vector<int>& row_buckets,
                     const Experts& experts) {
  const std::vector<Basis> bases =
      BasisList(observations, row_buckets, experts).all();
  const bool any_leased =
      std::any_of(observations.begin(), observations.end(),
                  [](const Observation& of) { return !of.is_plan; });
  std::vector<std::vector<double>> rows;
  for (const Observation& observation : observations) {
    std::vector<double>& row = rows.emplace_back();
    for (const Basis& basis : bases) {
      row.push_back(ValueOf(basis, observation.quantities, row_buckets) /
                    observation.microseconds);
    }
    if (any_leased) {
      row.push_back(observation.is_plan ? 1 / observation.microseconds : 0);
    }
  }
  const std::vector<double> factors = FitToOnes(rows);
  FittedCosts fitted;
  if (factors.empty()) return fitted;
  fitted.costs = Merge(bases, factors, row_buckets);
  if (any_leased) fitted.plan_microseconds = factors.back();
  return fitted;
}

}  // namespace bole
