// How often drafts are right, from a mean or from a file.
#ifndef BOLE_CLIENTS_TUNE_ACCEPTANCE_PROFILE_H_
#define BOLE_CLIENTS_TUNE_ACCEPTANCE_PROFILE_H_

#include <string>

#include "absl/status/statusor.h"
#include "common/draft_shape.h"
#include "common/expected_acceptance.h"

namespace bole::tune {

struct AcceptanceProfile {
  std::string name;  // "mean acceptance 6.9 (trees of 64 nodes)"
  RankChances chances;
};

// The trees with which a mean was measured.
struct MeasuredTree {
  DraftShape shape;
  int nodes = 64;
};

// The profile with which trees like `of` have `mean` accepted tokens per round,
// including the model's own. Its ranks are those of HalvingChances().
//
// INVALID_ARGUMENT: such trees cannot have that mean.
absl::StatusOr<AcceptanceProfile> ProfileOfMean(double mean,
                                                const MeasuredTree& of);

// From a JSON file, which has one of
//   {"accept": [[0.74, 0.13], ...]}   chances by depth and rank: RankChances
//   {"tree": {"top_k": 4, "depth": 8, "nodes": 64}, "acceptance": {"mean": 5}}
//                                     as `bole-eval generate --out` has them
// Errors name the file and what is wrong in it.
absl::StatusOr<AcceptanceProfile> LoadProfile(const std::string& path);

}  // namespace bole::tune

#endif  // BOLE_CLIENTS_TUNE_ACCEPTANCE_PROFILE_H_
