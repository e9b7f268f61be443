// How long the rounds of a worker take, as a sum of a few terms.
#ifndef BOLE_COMMON_STEP_COSTS_H_
#define BOLE_COMMON_STEP_COSTS_H_

#include <array>
#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/step.h"
#include "nlohmann/json_fwd.hpp"

namespace bole {

// What the time of a round depends on.
enum class Quantity {
  kRows,             // "rows": nodes of the forest.
  kRequests,         // "requests": those with nodes.
  kKvTokens,         // "kv_tokens": committed tokens of those, together.
  kPrefillTokens,    // "prefill_tokens": tokens of all chunks.
  kPrefillKvTokens,  // "prefill_kv_tokens": committed before the chunks.
  kDraftTopK,        // "draft_top_k": 0 without a draft.
  kDraftDepth,       // "draft_depth": 0 without a draft.
  kForwardRows,      // "forward_rows": rows and prefill_tokens together.
  kDraftRows,        // "draft_rows": rows without the roots.
  kTailTokens,       // "tail_tokens": of all draft tails.
  kExactRows,        // "exact_rows": forward_rows, never padded. TimeOf() sets
                     // it: what does not run over padding depends on it.
};
inline constexpr int kNumQuantities = 11;

using RoundQuantities = std::array<double, kNumQuantities>;  // By Quantity.

RoundQuantities QuantitiesOf(const StepPlan& plan);

// The JSON object of those that are not 0: {"rows": 64, "requests": 4}.
nlohmann::ordered_json QuantitiesToJson(const RoundQuantities& quantities);
// The inverse. INVALID_ARGUMENT naming what is not a quantity or not a number.
absl::StatusOr<RoundQuantities> ParseQuantities(const nlohmann::json& object);

// A sum of terms, each a grid of times over some quantities. Between the points
// of a grid a time is interpolated, linearly along every axis. Outside of the
// grid it is that of the nearest point, except beyond the last point of the
// first axis, where it is extrapolated from the last two. A term counts only in
// rounds where the quantity of its first axis is not 0. Times are never
// negative.
//
// Where rows are padded, "rows" and "forward_rows" count as the least bucket
// that holds them; more rows than the last one count as they are.
class StepCosts {
 public:
  static constexpr std::chrono::hours kMaxTime{24};

  struct Axis {
    Quantity quantity;
    std::vector<double> points;  // Ascending, not empty.
  };
  struct Term {
    std::string name = {};                  // For people.
    std::vector<Axis> axes = {};            // 1 to 4.
    std::vector<double> microseconds = {};  // The last axis is the innermost.
  };

  // The costs of rounds that take no time.
  StepCosts() = default;
  // REQUIRES: every term has as many times, none of them negative, as its grid
  // has points; buckets ascend and are positive.
  StepCosts(std::vector<Term> terms, std::vector<int> row_buckets)
      : terms_(std::move(terms)), row_buckets_(std::move(row_buckets)) {}

  // From the text of a JSON document:
  //   {"row_buckets": [1, 2, 4],
  //    "terms": [{"name": "verify",
  //               "axes": [["rows", [1, 64]], ["kv_tokens", [0, 8192]]],
  //               "microseconds": [[4000, 4100], [4900, 5000]]}]}
  // The arrays of "microseconds" nest as deep as there are axes, the first one
  // outermost. Points ascend. Without buckets rows are not padded. Other keys
  // are for people.
  // INVALID_ARGUMENT naming the term and what is wrong with it.
  static absl::StatusOr<StepCosts> Parse(std::string_view text);
  // The same for a document that is already parsed.
  static absl::StatusOr<StepCosts> FromJson(const nlohmann::json& document);
  // From a file. Errors begin with its path.
  static absl::StatusOr<StepCosts> Load(const std::string& path);

  // What Parse() reads. Times are rounded to hundredths of a microsecond.
  nlohmann::ordered_json ToJson() const;

  // At most kMaxTime. COST: O(terms * 2^axes).
  std::chrono::nanoseconds TimeOf(const RoundQuantities& of_round) const;
  std::chrono::nanoseconds TimeOf(const StepPlan& plan) const {
    return TimeOf(QuantitiesOf(plan));
  }

  const std::vector<Term>& terms() const { return terms_; }
  const std::vector<int>& row_buckets() const { return row_buckets_; }

 private:
  std::vector<Term> terms_;
  std::vector<int> row_buckets_;
};

}  // namespace bole

#endif  // BOLE_COMMON_STEP_COSTS_H_
