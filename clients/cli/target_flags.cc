#include "clients/cli/target_flags.h"

#include <limits>

namespace bole {

void TargetFlags::AddTo(CommandLine& command) {
  constexpr int kMax = std::numeric_limits<int>::max();
  command
      .Add("--ttft-ms", ttft_ms,
           "aim at so many milliseconds until the first token")
      .Range(1, kMax);
  command
      .Add("--tpot-ms", tpot_ms,
           "aim at so many milliseconds for every later token")
      .Range(1, kMax);
}

std::optional<v1::LatencyTargets> TargetFlags::ToProto() const {
  if (!ttft_ms && !tpot_ms) return std::nullopt;
  v1::LatencyTargets targets;
  if (ttft_ms) targets.set_time_to_first_token_ms(*ttft_ms);
  if (tpot_ms) targets.set_time_per_output_token_ms(*tpot_ms);
  return targets;
}

}  // namespace bole
