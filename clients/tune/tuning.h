// Predicts from a cost table which way to decode is the fastest at which load.
#ifndef BOLE_CLIENTS_TUNE_TUNING_H_
#define BOLE_CLIENTS_TUNE_TUNING_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "common/cost_table.h"
#include "common/draft_shape.h"
#include "common/expected_acceptance.h"

namespace bole::tune {

// A way to decode that is the same in every round.
struct Setting {
  std::optional<DraftShape> draft;  // Absent: plain decoding.
  int nodes = 1;                    // Verified per request, including the root.

  friend bool operator==(const Setting&, const Setting&) = default;
};

// "plain", "chain 3", "tree 64"
std::string NameOf(const Setting& setting);
// The flags of bole-scheduler that choose it:
// "--speculation tree --top-k 4 --depth 8 --nodes 64".
std::string FlagsOf(const Setting& setting);

// Plain decoding, chains of depth 3, 5 and 8, and trees of the shape `tree`
// with 8 to 128 nodes, up to as many as that shape has.
std::vector<Setting> UsualSettings(const DraftShape& tree);

struct LoadOptions {
  std::vector<int> requests = {1, 2, 4, 8, 16, 32, 64};  // Concurrent.
  int context = 1024;                                    // Tokens per request.
  int lease_rounds = 8;  // Rounds per plan; a plan costs one round trip.
  int max_rows = 1024;   // Bound on the nodes of a round, over all requests.
};

// The rates for one number of requests.
struct LoadRow {
  int requests = 0;
  // Entry i is the rate of setting i, summed over the requests. Absent: the
  // setting needs too many rows.
  std::vector<std::optional<double>> tokens_per_second;
  size_t best = 0;  // The fastest setting; on a tie, the first one.

  // The speed-up over plain decoding. REQUIRES: the setting has a rate.
  double SpeedUp(size_t setting) const;
};

// The rates of `settings`, the first of which is plain decoding, on the worker
// that `table` describes, if drafts are right with the probabilities `chances`.
// The time for prompts is not counted.
//
// REQUIRES: every number of requests is from 1 to max_rows.
// COST: O(settings * requests) evaluations of the cost table, and one of
// ExpectedDrafts() for each setting.
std::vector<LoadRow> RateLoads(const CostTable& table,
                               const std::vector<Setting>& settings,
                               const RankChances& chances,
                               const LoadOptions& options);

}  // namespace bole::tune

#endif  // BOLE_CLIENTS_TUNE_TUNING_H_
