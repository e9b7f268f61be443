#include "scheduler_service/replicas/router.h"

#include <algorithm>
#include <utility>

namespace bole {

double ExpectedWait(const RouteOption& option) {
  const int64_t tokens =
      option.prefill_ahead + option.prefill_tokens - option.cached_tokens;
  const int64_t per_round = std::max(option.max_prefill_tokens, 1);
  const int64_t rounds =
      std::max<int64_t>((tokens + per_round - 1) / per_round, 1);
  return option.seconds_until_free +
         static_cast<double>(rounds) * option.round_seconds;
}

std::optional<size_t> Route(std::span<const RouteOption> options) {
  const auto cost = [&](size_t i) {
    return std::pair(ExpectedWait(options[i]), options[i].num_running);
  };
  std::optional<size_t> best;
  for (size_t i = 0; i < options.size(); ++i) {
    if (options[i].has_room && (!best || cost(i) < cost(*best))) best = i;
  }
  return best;
}

}  // namespace bole
