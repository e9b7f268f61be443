// Conversations that come and go beside a prefix cache, in virtual time.
#ifndef BOLE_TESTS_BENCH_CACHE_CACHE_REPLAY_H_
#define BOLE_TESTS_BENCH_CACHE_CACHE_REPLAY_H_

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "clients/bench/workload.h"
#include "scheduler_service/replicas/prefix_cache.h"

namespace bole::bench {

// One request of a conversation.
struct CacheTurn {
  // The whole prompt. Those with seed 0 are equal in all conversations.
  std::vector<Segment> prompt;
  // Behind the prompt: what the next turn takes for the answer, if it does.
  Segment answer;
  double think_seconds = 0;  // From the end of the turn before.
};
using Conversation = std::vector<CacheTurn>;

// One worker.
struct CacheMachine {
  int num_slots = 0;
  int num_pages = 0;
  int page_size = 64;
  int max_running = 256;
  double slot_bytes = 1;
  double page_bytes = 1;
  double prefill_seconds = 1e-4;  // A token without context.
  double context_cost = 1e-5;     // As PrefixCacheOptions has it.
  double output_seconds = 0.005;  // A token.
  Eviction eviction = Eviction::kCostPerByte;
};

struct CacheLoad {
  double sessions_per_second = 1;  // Poisson.
  int num_sessions = 100;          // Each a conversation, with its own tokens.
  int num_ignored = 0;  // The first ones count for nothing: the cache fills.
  uint64_t seed = 1;
};

struct CacheReplay {
  int64_t requests = 0;
  int64_t prompt_tokens = 0;
  int64_t hit_tokens = 0;
  double saved_seconds = 0;    // Of prefill.
  double prefill_seconds = 0;  // What was not saved.
  double wait_seconds = 0;     // For memory.
  int64_t checkpoints = 0;     // Made, or kept of those that ended.
  int64_t evicted = 0;
  std::array<int64_t, kNumMissReasons> misses{};
};

// What a cache has to hold so that all is found which is asked for again: a
// slot and the pages of its text for each conversation, from its beginning on.
struct WorkingSet {
  int slots = 0;    // At most.
  int pages = 0;    // At most, perhaps at another time.
  double mean = 0;  // In bytes, from the first arrival to the last.

  double bytes(const CacheMachine& machine) const {
    return slots * machine.slot_bytes + pages * machine.page_bytes;
  }
};
// As if every prefix were found. Without a window, conversations count until
// they are over, which no cache knows. With one, as Denning has it, what was
// used within so many seconds counts, be it used again or not.
WorkingSet WorkingSetOf(const std::vector<Conversation>& conversations,
                        const CacheLoad& load, const CacheMachine& machine,
                        std::optional<double> window_seconds = std::nullopt);

// Replays conversations drawn from `conversations`. A request finds its prefix,
// takes pages and a slot, or waits until there are some, and keeps what the
// scheduler keeps: checkpoints at the prompt's last boundary, at every
// kCheckpointEvery tokens, where texts part, and where it ends.
//
// Only the cache is real: rounds, batches and queues are not there.
CacheReplay Replay(const std::vector<Conversation>& conversations,
                   const CacheLoad& load, const CacheMachine& machine);

}  // namespace bole::bench

#endif  // BOLE_TESTS_BENCH_CACHE_CACHE_REPLAY_H_
