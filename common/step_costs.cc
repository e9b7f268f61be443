#include "common/step_costs.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/json.h"
#include "common/status_macros.h"
#include "common/tokenizer/read_file.h"
#include "nlohmann/json.hpp"

namespace bole {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr int kMaxDepth = 16;  // Nesting of the JSON.
constexpr size_t kMaxBytes = 16 << 20;
constexpr size_t kMaxAxes = 4;
constexpr size_t kMaxTerms = 64;
constexpr size_t kMaxRowBuckets = 4096;
// Bound on the points of axes and on times in microseconds.
constexpr double kMaxNumber = 1e12;

constexpr const char* kNames[kNumQuantities] = {
    "rows",           "requests",          "kv_tokens",
    "prefill_tokens", "prefill_kv_tokens", "draft_top_k",
    "draft_depth",    "forward_rows",      "draft_rows",
    "tail_tokens",    "exact_rows"};

absl::Status Bad(const std::string& term, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("term '", term, "': ", what));
}

std::optional<Quantity> QuantityOf(const std::string& name) {
  const auto* const found =
      std::find(std::begin(kNames), std::end(kNames), name);
  if (found == std::end(kNames)) return std::nullopt;
  return static_cast<Quantity>(found - std::begin(kNames));
}

absl::StatusOr<Quantity> ParseQuantity(const json& name,
                                       const std::string& term) {
  if (name.is_string()) {
    const auto quantity = QuantityOf(name.get<std::string>());
    if (quantity) return *quantity;
  }
  return Bad(term, absl::StrCat("an axis is of ", name.dump(),
                                ", which is no quantity of a round"));
}

absl::StatusOr<StepCosts::Axis> ParseAxis(const json& axis,
                                          const std::string& term) {
  if (!axis.is_array() || axis.size() != 2 || !axis[1].is_array()) {
    return Bad(term, absl::StrCat("axis ", axis.dump(),
                                  " is not [quantity, [points]]"));
  }
  StepCosts::Axis parsed;
  BOLE_ASSIGN_OR_RETURN(parsed.quantity, ParseQuantity(axis[0], term));
  for (const json& point : axis[1]) {
    const bool ascends =
        point.is_number() && std::abs(point.get<double>()) <= kMaxNumber &&
        (parsed.points.empty() || point.get<double>() > parsed.points.back());
    if (!ascends) {
      return Bad(term,
                 absl::StrCat("point ", point.dump(), " of ", axis[0].dump(),
                              " is no number above the one before"));
    }
    parsed.points.push_back(point.get<double>());
  }
  if (parsed.points.empty()) {
    return Bad(term, absl::StrCat("axis ", axis[0].dump(), " has no points"));
  }
  return parsed;
}

// Appends the numbers of `values`, arrays nested once per axis, to `flat`.
absl::Status Flatten(const json& values, std::span<const StepCosts::Axis> axes,
                     const std::string& term, std::vector<double>& flat) {
  if (axes.empty()) {
    if (!values.is_number() || values.get<double>() < 0 ||
        values.get<double>() > kMaxNumber) {
      return Bad(term, absl::StrCat("microseconds has ", values.dump(),
                                    ", which is no time"));
    }
    flat.push_back(values.get<double>());
    return absl::OkStatus();
  }
  const size_t count = axes[0].points.size();
  if (!values.is_array() || values.size() != count) {
    return Bad(term, absl::StrCat("microseconds has ",
                                  values.is_array() ? values.size() : 0,
                                  " entries along ",
                                  kNames[static_cast<size_t>(axes[0].quantity)],
                                  ", which has ", count, " points"));
  }
  for (const json& value : values) {
    BOLE_RETURN_IF_ERROR(Flatten(value, axes.subspan(1), term, flat));
  }
  return absl::OkStatus();
}

absl::StatusOr<StepCosts::Term> ParseTerm(const json& term, size_t index) {
  const bool has_name =
      term.is_object() && term.contains("name") && term["name"].is_string();
  const std::string name =
      has_name ? term["name"].get<std::string>() : absl::StrCat(index);
  if (!term.is_object() || !term.contains("axes") ||
      !term.contains("microseconds") || !term["axes"].is_array() ||
      term["axes"].empty() || term["axes"].size() > kMaxAxes) {
    return Bad(name, absl::StrCat("is no object with 1 to ", kMaxAxes,
                                  " axes, and microseconds"));
  }
  StepCosts::Term parsed;
  if (has_name) parsed.name = name;
  for (const json& axis : term["axes"]) {
    BOLE_ASSIGN_OR_RETURN(StepCosts::Axis next, ParseAxis(axis, name));
    parsed.axes.push_back(std::move(next));
  }
  BOLE_RETURN_IF_ERROR(
      Flatten(term["microseconds"], parsed.axes, name, parsed.microseconds));
  return parsed;
}

absl::StatusOr<std::vector<int>> ParseRowBuckets(const json& buckets) {
  if (!buckets.is_array() || buckets.size() > kMaxRowBuckets) {
    return absl::InvalidArgumentError(
        absl::StrCat("row_buckets is no array of at most ", kMaxRowBuckets));
  }
  std::vector<int> parsed;
  for (const json& bucket : buckets) {
    const int above = parsed.empty() ? 0 : parsed.back();
    if (!bucket.is_number_integer() || bucket.get<int64_t>() <= above ||
        bucket.get<int64_t>() > std::numeric_limits<int>::max()) {
      return absl::InvalidArgumentError(
          absl::StrCat("row_buckets has ", bucket.dump(),
                       ", which is no number of rows above ", above));
    }
    parsed.push_back(bucket.get<int>());
  }
  return parsed;
}

// The grid `values` as nested arrays, the form that Flatten() reads.
ordered_json Nest(std::span<const StepCosts::Axis> axes,
                  std::span<const double> values) {
  if (axes.empty()) return std::round(values[0] * 100) / 100;
  const size_t count = axes[0].points.size();
  const size_t stride = values.size() / count;
  ordered_json nested = ordered_json::array();
  for (size_t i = 0; i < count; ++i) {
    nested.push_back(Nest(axes.subspan(1), values.subspan(i * stride, stride)));
  }
  return nested;
}

double Padded(double rows, const std::vector<int>& buckets) {
  const auto bucket = std::lower_bound(buckets.begin(), buckets.end(), rows);
  return rows == 0 || bucket == buckets.end() ? rows : *bucket;
}

// Interpolates in the grid `values` over `axes`. Beyond the last point it
// extrapolates along a term's first axis alone (`is_first`).
double Interpolate(std::span<const StepCosts::Axis> axes,
                   std::span<const double> values,
                   const RoundQuantities& quantities, bool is_first = true) {
  if (axes.empty()) return values[0];
  const std::vector<double>& points = axes[0].points;
  const size_t stride = values.size() / points.size();
  const auto at = [&](size_t i) {
    return Interpolate(axes.subspan(1), values.subspan(i * stride, stride),
                       quantities, /*is_first=*/false);
  };
  const double x = quantities[static_cast<size_t>(axes[0].quantity)];
  if (points.size() == 1 || x <= points.front()) return at(0);
  if (x >= points.back() && !is_first) return at(points.size() - 1);
  const auto above = std::upper_bound(points.begin() + 1, points.end() - 1, x);
  const size_t high = above - points.begin();
  const double share =
      (x - points[high - 1]) / (points[high] - points[high - 1]);
  return at(high - 1) * (1 - share) + at(high) * share;
}

}  // namespace

RoundQuantities QuantitiesOf(const StepPlan& plan) {
  RoundQuantities quantities{};
  const auto add = [&](Quantity quantity, double value) {
    quantities[static_cast<size_t>(quantity)] += value;
  };
  add(Quantity::kRows, plan.forest.num_nodes());
  add(Quantity::kForwardRows, plan.forest.num_nodes());
  for (size_t b = 0; b < plan.sequences.size(); ++b) {
    add(Quantity::kTailTokens,
        static_cast<double>(plan.sequences[b].draft_tail.size()));
    if (plan.forest.first_node[b] == plan.forest.first_node[b + 1]) continue;
    add(Quantity::kRequests, 1);
    add(Quantity::kKvTokens, plan.sequences[b].committed);
  }
  const size_t requests = static_cast<size_t>(Quantity::kRequests);
  add(Quantity::kDraftRows, plan.forest.num_nodes() - quantities[requests]);
  for (const PrefillPlan& chunk : plan.prefills) {
    add(Quantity::kPrefillTokens, static_cast<double>(chunk.tokens.size()));
    add(Quantity::kForwardRows, static_cast<double>(chunk.tokens.size()));
    add(Quantity::kPrefillKvTokens, chunk.sequence.committed);
  }
  if (plan.draft) {
    add(Quantity::kDraftTopK, plan.draft->top_k);
    add(Quantity::kDraftDepth, plan.draft->depth);
  }
  return quantities;
}

ordered_json QuantitiesToJson(const RoundQuantities& quantities) {
  ordered_json object = ordered_json::object();
  for (int i = 0; i < kNumQuantities; ++i) {
    if (quantities[i] != 0) object[kNames[i]] = quantities[i];
  }
  return object;
}

absl::StatusOr<RoundQuantities> ParseQuantities(const json& object) {
  RoundQuantities quantities{};
  for (const auto& [name, value] : object.items()) {
    const std::optional<Quantity> quantity = QuantityOf(name);
    if (!quantity || !value.is_number()) {
      return absl::InvalidArgumentError(absl::StrCat(
          name, " is ", value.dump(), ", which is no quantity of a round"));
    }
    quantities[static_cast<size_t>(*quantity)] = value.get<double>();
  }
  return quantities;
}

absl::StatusOr<StepCosts> StepCosts::Parse(std::string_view text) {
  BOLE_ASSIGN_OR_RETURN(const json document, ParseJson(text, kMaxDepth));
  return FromJson(document);
}

absl::StatusOr<StepCosts> StepCosts::FromJson(const json& document) {
  if (!document.is_object() || !document.contains("terms") ||
      !document["terms"].is_array() || document["terms"].size() > kMaxTerms) {
    return absl::InvalidArgumentError(
        absl::StrCat("there is no array \"terms\" of at most ", kMaxTerms));
  }
  StepCosts costs;
  if (document.contains("row_buckets")) {
    BOLE_ASSIGN_OR_RETURN(costs.row_buckets_,
                          ParseRowBuckets(document["row_buckets"]));
  }
  for (const json& term : document["terms"]) {
    BOLE_ASSIGN_OR_RETURN(Term parsed, ParseTerm(term, costs.terms_.size()));
    costs.terms_.push_back(std::move(parsed));
  }
  return costs;
}

absl::StatusOr<StepCosts> StepCosts::Load(const std::string& path) {
  BOLE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxBytes));
  absl::StatusOr<StepCosts> costs = Parse(text);
  if (costs.ok()) return costs;
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": ", costs.status().message()));
}

ordered_json StepCosts::ToJson() const {
  ordered_json document = ordered_json::object();
  if (!row_buckets_.empty()) document["row_buckets"] = row_buckets_;
  document["terms"] = ordered_json::array();
  for (const Term& term : terms_) {
    ordered_json axes = ordered_json::array();
    for (const Axis& axis : term.axes) {
      axes.push_back({kNames[static_cast<size_t>(axis.quantity)], axis.points});
    }
    document["terms"].push_back(
        {{"name", term.name},
         {"axes", std::move(axes)},
         {"microseconds", Nest(term.axes, term.microseconds)}});
  }
  return document;
}

std::chrono::nanoseconds StepCosts::TimeOf(
    const RoundQuantities& of_round) const {
  RoundQuantities quantities = of_round;
  quantities[static_cast<size_t>(Quantity::kExactRows)] =
      quantities[static_cast<size_t>(Quantity::kForwardRows)];
  for (const Quantity padded : {Quantity::kRows, Quantity::kForwardRows}) {
    double& rows = quantities[static_cast<size_t>(padded)];
    rows = Padded(rows, row_buckets_);
  }
  double microseconds = 0;
  for (const Term& term : terms_) {
    const auto first = static_cast<size_t>(term.axes[0].quantity);
    if (quantities[first] == 0) continue;
    // If points lie very close to each other, this may be infinite or NaN.
    const double time = Interpolate(term.axes, term.microseconds, quantities);
    if (time > 0) microseconds += time;
  }
  constexpr double kMost =
      std::chrono::duration<double, std::micro>(kMaxTime).count();
  return std::chrono::nanoseconds(
      static_cast<int64_t>(std::min(microseconds, kMost) * 1e3));
}

}  // namespace bole
