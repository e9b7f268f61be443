// Queries of a prefix cache, and facts about its checkpoints.
#ifndef BOLE_SCHEDULER_SERVICE_REPLICAS_CACHE_QUERY_H_
#define BOLE_SCHEDULER_SERVICE_REPLICAS_CACHE_QUERY_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace bole {

// Checkpoints are made at multiples of this position, or where a text ends.
// Shorter prefixes are not looked up.
inline constexpr int kCacheGrid = 64;

// While a long prompt is prefilled, checkpoints are made at multiples of this.
inline constexpr int kCheckpointEvery = 2048;
// A checkpoint before the end of a prompt is made if it saves this many tokens.
inline constexpr int kLeastCheckpoint = 256;

// The positions, ascending, where checkpoints are made while a text is
// prefilled whose first `known` tokens need no prefill: at multiples of
// kCheckpointEvery, where texts have diverged (`wish`), and at the last
// position on the grid before `length`.
std::vector<int> CheckpointsOf(int known, int length, std::optional<int> wish);

// Why a request did not find a longer prefix.
enum class MissReason {
  kNone,              // It found all that there ever was.
  kCold,              // No text began like this one.
  kBelowGranularity,  // It is too short for there to be a checkpoint.
  kEvicted,           // It was there, but has been evicted.
  kNoCheckpoint,      // The tokens are there, but no state at such a position.
  kSalt,              // It exists for another tenant or salt.
  kOtherWorker,       // Another worker has more. Set by Replica.
};
inline constexpr int kNumMissReasons = 7;
// Its name in metrics: "below_granularity"; empty for kNone.
const char* NameOf(MissReason reason);

// A text whose beginning is looked up.
struct CacheQuery {
  // Stands for a tenant and a salt; two tenants never share.
  std::string key;
  // The prompt and the output so far. At least one token must be left to run,
  // so all but the last one may be found.
  std::span<const int32_t> tokens;
  // Tokens at later positions are output. A checkpoint beyond this position has
  // to agree on where the output began, because penalties depend on it.
  int prompt_length = 0;
};

// What is known of a slot that becomes a checkpoint.
struct CheckpointFacts {
  int position = 0;         // The number of tokens whose state it has.
  int prompt_length = 0;    // In the request that made it.
  int num_undrafted = 0;    // Last tokens that the drafter has not seen.
  bool has_drafter = true;  // It has seen all other tokens.
  // Its contents have yet to be copied: nobody finds it before
  // PrefixCache::Arrived().
  bool is_coming = false;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_REPLICAS_CACHE_QUERY_H_
