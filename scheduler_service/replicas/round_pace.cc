#include "scheduler_service/replicas/round_pace.h"

#include <algorithm>

namespace bole {
namespace {

// Weight of the latest round in the mean of recent ones.
constexpr double kLatestWeight = 0.2;

void Blend(double latest, double& mean) {
  mean = mean == 0 ? latest : mean + kLatestWeight * (latest - mean);
}

}  // namespace

void RoundPace::Took(double seconds, int prefill_tokens) {
  if (prefill_tokens > 0 && saw_plain_round_) {
    const double more = std::max(0.0, seconds - round_seconds_);
    Blend(more / prefill_tokens, token_seconds_);
    return;
  }
  if (prefill_tokens == 0 && !saw_plain_round_) {
    saw_plain_round_ = true;
    round_seconds_ = 0;
  }
  Blend(seconds, round_seconds_);
}

}  // namespace bole
