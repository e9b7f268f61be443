// Which way to decode is the fastest under which load, by a table of costs.
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
  int nodes = 1;  // Verified of each request, the root included.

  friend bool operator==(const Setting&, const Setting&) = default;
};

// "plain", "chain 3", "tree 64"
std::string NameOf(const Setting& setting);
// Of bole-scheduler: "--speculation tree --top-k 4 --depth 8 --nodes 64".
std::string FlagsOf(const Setting& setting);

// Plain decoding, chains of 3, 5 and 8, and trees of `tree` with 8 to 128
// nodes, as far as it has as many.
std::vector<Setting> UsualSettings(const DraftShape& tree);

struct LoadOptions {
  std::vector<int> requests = {1, 2, 4, 8, 16, 32, 64};  // At once.
  int context = 1024;                                    // Tokens of each.
  int lease_rounds = 8;  // Rounds of a plan, which pays one round trip.
  int max_rows = 1024;   // Nodes of a round, of all requests together.
};

// One number of requests.
struct LoadRow {
  int requests = 0;
  // Entry i is the rate of setting i, summed over the requests. Absent: it
  // needs too many rows.
  std::vector<std::optional<double>> tokens_per_second;
  size_t best = 0;  // The setting; of equals the one with fewer nodes.

  // Over plain decoding. REQUIRES: the setting has a rate.
  double SpeedUp(size_t setting) const;
};

// The rates of `settings`, of which the first is plain decoding, on the worker
// of `table` if drafts are right with `chances`. Prompts are not counted.
//
// REQUIRES: every number of requests is from 1 to max_rows.
// COST: O(settings * requests) costs, and a draft's expectation for each
// setting.
std::vector<LoadRow> RateLoads(const CostTable& table,
                               const std::vector<Setting>& settings,
                               const RankChances& chances,
                               const LoadOptions& options);

}  // namespace bole::tune

#endif  // BOLE_CLIENTS_TUNE_TUNING_H_
