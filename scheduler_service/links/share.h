// The part of a pool of workers that one scheduler is to have.
#ifndef BOLE_SCHEDULER_SERVICE_LINKS_SHARE_H_
#define BOLE_SCHEDULER_SERVICE_LINKS_SHARE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace bole {

// The place of a scheduler among those that share a pool. 0 <= rank < of.
struct Place {
  int rank = 0;  // The first ones get the remainder.
  int of = 1;
  friend bool operator==(const Place&, const Place&) = default;
};

// Returns the place among the schedulers that want workers of a model; none if
// it is not known yet.
using PlaceOf = std::function<std::optional<Place>(const std::string& model)>;

// How many of `workers` the scheduler at `place` is to have. The sum over all
// ranks is `workers`, and no two of them differ by more than one.
inline int ShareOf(int workers, const Place& place) {
  return workers / place.of + (place.rank < workers % place.of ? 1 : 0);
}

// Reads "K/N", such as "1/2": the K-th of N schedulers, from 1 on.
// INVALID_ARGUMENT if it is anything else, or N is above 1000.
absl::StatusOr<Place> ParsePlace(std::string_view text);

// What is known of a model's workers in the pool.
struct ModelShare {
  std::string model;
  int workers = 0;             // Those of all schedulers together.
  std::optional<Place> place;  // None: not known yet, and so no share either.
  int share = 0;               // How many this one is to have.
  int held = 0;                // How many it has, without the next.
  int giving_back = 0;         // They leave once they are empty.
  friend bool operator==(const ModelShare&, const ModelShare&) = default;
};

struct PoolShares {
  std::vector<ModelShare> models;  // Models with workers, by name.
  int64_t num_claimed = 0;         // Since the start.
  int64_t num_given_back = 0;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_LINKS_SHARE_H_
