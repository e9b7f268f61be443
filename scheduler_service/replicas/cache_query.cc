#include "scheduler_service/replicas/cache_query.h"

#include <algorithm>

namespace bole {

std::vector<int> CheckpointsOf(int known, int length, std::optional<int> wish) {
  std::vector<int> positions;
  for (int at = (known / kCheckpointEvery + 1) * kCheckpointEvery; at < length;
       at += kCheckpointEvery) {
    positions.push_back(at);
  }
  const int last = (length - 1) / kCacheGrid * kCacheGrid;
  if (last >= known + kLeastCheckpoint) positions.push_back(last);
  if (wish && *wish > known && *wish < length) positions.push_back(*wish);
  std::sort(positions.begin(), positions.end());
  positions.erase(std::unique(positions.begin(), positions.end()),
                  positions.end());
  return positions;
}

const char* NameOf(MissReason reason) {
  switch (reason) {
    case MissReason::kNone:
      return "";
    case MissReason::kCold:
      return "cold";
    case MissReason::kBelowGranularity:
      return "below_granularity";
    case MissReason::kEvicted:
      return "evicted";
    case MissReason::kNoCheckpoint:
      return "no_checkpoint";
    case MissReason::kSalt:
      return "salt";
    case MissReason::kOtherWorker:
      return "other_worker";
  }
  return "";
}

}  // namespace bole
