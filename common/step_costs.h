// How long the rounds of a worker take, as a sum of few terms.
#ifndef BOLE_COMMON_STEP_COSTS_H_
#define BOLE_COMMON_STEP_COSTS_H_

#include <array>
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/step.h"

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
};
inline constexpr int kNumQuantities = 9;

using RoundQuantities = std::array<double, kNumQuantities>;  // By Quantity.

RoundQuantities QuantitiesOf(const StepPlan& plan);

// A sum of terms, each a grid of times over some quantities. Between the points
// of a grid a time is interpolated, linearly along every axis. Outside of them
// it is that of the nearest point, but beyond the last point of the first axis,
// where it goes on as between the last two. A term counts only in rounds where
// the quantity of its first axis is not 0. Times are never negative.
class StepCosts {
 public:
  // Rounds that take no time.
  StepCosts() = default;

  // From the text of a JSON document:
  //   {"terms": [{"name": "verify",
  //               "axes": [["rows", [1, 64]], ["kv_tokens", [0, 8192]]],
  //               "microseconds": [[4000, 4100], [4900, 5000]]}]}
  // The arrays of "microseconds" nest as deep as there are axes, the first one
  // outermost. Points ascend. Other keys are for people.
  // INVALID_ARGUMENT naming the term and what is wrong with it.
  static absl::StatusOr<StepCosts> Parse(std::string_view text);
  // From a file. Errors begin with its path.
  static absl::StatusOr<StepCosts> Load(const std::string& path);

  // COST: O(terms * 2^axes).
  std::chrono::nanoseconds TimeOf(const RoundQuantities& quantities) const;
  std::chrono::nanoseconds TimeOf(const StepPlan& plan) const {
    return TimeOf(QuantitiesOf(plan));
  }

  struct Axis {
    Quantity quantity;
    std::vector<double> points;  // Ascending, not empty.
  };
  struct Term {
    std::vector<Axis> axes;            // Not empty.
    std::vector<double> microseconds;  // The last axis is the innermost.
  };

 private:
  std::vector<Term> terms_;
};

}  // namespace bole

#endif  // BOLE_COMMON_STEP_COSTS_H_
