// What is asked of a prefix cache, and what is known of its checkpoints.
#ifndef BOLE_SCHEDULER_SERVICE_REPLICAS_CACHE_QUERY_H_
#define BOLE_SCHEDULER_SERVICE_REPLICAS_CACHE_QUERY_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace bole {

// Checkpoints are made at multiples of this position, but where a text ends,
// and prefixes that are shorter are not looked for.
inline constexpr int kCacheGrid = 64;

// And at these, where a long prompt is prefilled.
inline constexpr int kCheckpointEvery = 2048;
// One before the end of a prompt is made if it saves so many tokens.
inline constexpr int kLeastCheckpoint = 256;

// Where checkpoints are made as a text is prefilled of which `known` tokens
// need not be, ascending: at multiples of kCheckpointEvery, where texts have
// parted (`wish`), and at the last position on the grid before `length`.
std::vector<int> CheckpointsOf(int known, int length, std::optional<int> wish);

// Why a request did not find more than it did.
enum class MissReason {
  kNone,              // It found what there ever was.
  kCold,              // Nobody began like this.
  kBelowGranularity,  // It is too short for there to be a checkpoint.
  kEvicted,           // It was there, and gave way to others.
  kNoCheckpoint,      // The tokens are there, but no state between them.
  kSalt,              // It is there for another tenant or salt.
  kOtherWorker,       // Another worker has more. Said by who knows them.
};
inline constexpr int kNumMissReasons = 7;
// As metrics write it: "below_granularity"; empty for kNone.
const char* NameOf(MissReason reason);

// A text that looks for its beginning.
struct CacheQuery {
  // Those of a tenant and a salt; two tenants never share.
  std::string key;
  // Prompt, and output so far. At least one token is left to be run, so that
  // all but the last may be found.
  std::span<const int32_t> tokens;
  // Tokens at later positions are output. A checkpoint beyond it has to agree
  // on where the output began, for the sake of penalties.
  int prompt_length = 0;
};

// What of a slot is known, when it becomes a checkpoint.
struct CheckpointFacts {
  int position = 0;         // Tokens whose state it has.
  int prompt_length = 0;    // Of the request that made it.
  int num_undrafted = 0;    // The last of them, that the drafter has not seen.
  bool has_drafter = true;  // The drafter has seen all the others.
  // What is known is still to be copied there: nobody finds it before
  // PrefixCache::Arrived().
  bool is_coming = false;
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_REPLICAS_CACHE_QUERY_H_
