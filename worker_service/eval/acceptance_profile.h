// How acceptance is spread over rounds, stretches of text and requests.
#ifndef BOLE_WORKER_SERVICE_EVAL_ACCEPTANCE_PROFILE_H_
#define BOLE_WORKER_SERVICE_EVAL_ACCEPTANCE_PROFILE_H_

#include <array>
#include <span>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"

namespace bole {

// One round of one request.
struct AcceptedRound {
  int tokens = 0;       // Emitted: accepted drafts and the one after them.
  double promised = 0;  // Expected tokens, by the drafter's probabilities.
};

// Statistics of rounds, without those that the end of an output cut short.
struct AcceptanceProfile {
  // Rounds between the two that a correlation compares.
  static constexpr std::array<int, 5> kLags = {1, 2, 4, 8, 16};
  // A request's mean is taken over this many rounds from its start, so that
  // means of different models are comparable; requests with fewer rounds do not
  // count for the deviation.
  static constexpr int kRoundsOfMean = 12;

  int requests = 0;  // With at least one round.
  int rounds = 0;
  double mean = 0;      // Tokens of a round.
  double promised = 0;  // Mean tokens that the drafter promised.
  // Standard deviation of the tokens of a round.
  double deviation = 0;
  // Standard deviation of the means of the requests.
  double request_deviation = 0;
  // For each lag, the correlation of a round's tokens with those of the same
  // request that many rounds later, both relative to the mean of all rounds.
  // The correlation that remains at long lags is the share of the variance that
  // is due to differences between requests. 0 without such a pair.
  std::array<double, kLags.size()> correlation = {};
  std::vector<double> share;  // [t - 1]: of rounds with t tokens.
};

// One entry of `requests` for each request, its rounds in order.
AcceptanceProfile ProfileOf(
    std::span<const std::vector<AcceptedRound>> requests);

nlohmann::ordered_json ToJson(const AcceptanceProfile& profile);

// The profile in one line.
std::string Summary(const AcceptanceProfile& profile);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_EVAL_ACCEPTANCE_PROFILE_H_
