#include "worker_service/eval/acceptance_profile.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"

namespace bole {
namespace {

using Rounds = std::vector<AcceptedRound>;

// The correlation of a round with the one that comes `lag` rounds later; `mean`
// and `variance` are those of all rounds.
double Correlation(std::span<const Rounds> requests, double mean,
                   double variance, int lag) {
  double sum = 0;
  int pairs = 0;
  for (const Rounds& rounds : requests) {
    for (size_t i = lag; i < rounds.size(); ++i) {
      sum += (rounds[i].tokens - mean) * (rounds[i - lag].tokens - mean);
      ++pairs;
    }
  }
  return pairs == 0 || variance == 0 ? 0 : sum / pairs / variance;
}

double RequestDeviation(std::span<const Rounds> requests) {
  constexpr int kRounds = AcceptanceProfile::kRoundsOfMean;
  double sum = 0;
  double squares = 0;
  int count = 0;
  for (const Rounds& rounds : requests) {
    if (std::ssize(rounds) < kRounds) continue;
    double mean = 0;
    for (int i = 0; i < kRounds; ++i) mean += rounds[i].tokens;
    mean /= kRounds;
    sum += mean;
    squares += mean * mean;
    ++count;
  }
  if (count < 2) return 0;
  return std::sqrt(std::max(0.0, squares - sum * sum / count) / (count - 1));
}

}  // namespace

AcceptanceProfile ProfileOf(std::span<const Rounds> requests) {
  AcceptanceProfile profile;
  double sum = 0;
  double squares = 0;
  for (const Rounds& rounds : requests) {
    if (!rounds.empty()) ++profile.requests;
    for (const AcceptedRound& round : rounds) {
      ++profile.rounds;
      sum += round.tokens;
      squares += static_cast<double>(round.tokens) * round.tokens;
      profile.promised += round.promised;
      profile.share.resize(
          std::max<size_t>(profile.share.size(), round.tokens));
      if (round.tokens > 0) ++profile.share[round.tokens - 1];
    }
  }
  if (profile.rounds == 0) return profile;
  profile.mean = sum / profile.rounds;
  profile.promised /= profile.rounds;
  for (double& share : profile.share) share /= profile.rounds;
  const double variance =
      std::max(0.0, squares / profile.rounds - profile.mean * profile.mean);
  profile.deviation = std::sqrt(variance);
  profile.request_deviation = RequestDeviation(requests);
  for (size_t i = 0; i < AcceptanceProfile::kLags.size(); ++i) {
    profile.correlation[i] = Correlation(requests, profile.mean, variance,
                                         AcceptanceProfile::kLags[i]);
  }
  return profile;
}

nlohmann::ordered_json ToJson(const AcceptanceProfile& profile) {
  nlohmann::ordered_json correlation = nlohmann::ordered_json::object();
  for (size_t i = 0; i < AcceptanceProfile::kLags.size(); ++i) {
    correlation[std::to_string(AcceptanceProfile::kLags[i])] =
        profile.correlation[i];
  }
  return {{"requests", profile.requests},
          {"rounds", profile.rounds},
          {"mean", profile.mean},
          {"promised", profile.promised},
          {"deviation", profile.deviation},
          {"request_deviation", profile.request_deviation},
          {"correlation_by_lag", correlation},
          {"share_by_tokens", profile.share}};
}

std::string Summary(const AcceptanceProfile& profile) {
  return absl::StrFormat(
      "%.2f accepted tokens a round (%.2f promised), which deviate by %.2f, "
      "the means of requests by %.2f; correlation with the next round %.2f, "
      "with the 8th after it %.2f",
      profile.mean, profile.promised, profile.deviation,
      profile.request_deviation, profile.correlation[0],
      profile.correlation[3]);
}

}  // namespace bole
