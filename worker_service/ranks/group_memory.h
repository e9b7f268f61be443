// What lies in the memory that the ranks of a model share.
#ifndef BOLE_WORKER_SERVICE_RANKS_GROUP_MEMORY_H_
#define BOLE_WORKER_SERVICE_RANKS_GROUP_MEMORY_H_

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "common/step.h"
#include "worker_service/ranks/rank_group.h"

namespace bole {

// The calls of a Communicator (host_communicator.cc). All ranks make the same
// exchanges, of which a call has one or several; each writes its part of
// exchange i into place i % 2. No rank is two exchanges ahead of another, so
// what a place holds has been read by all when it is written again.
struct CollectiveMemory {
  enum class Kind : int32_t { kAllReduce, kAllGather };
  struct Call {
    Kind kind;
    uint64_t part_bytes;    // This rank gives so many.
    uint64_t result_bytes;  // On every rank.

    friend bool operator==(const Call&, const Call&) = default;
  };
  // As much as a rank gives in one exchange. A multiple of a float's size.
  static constexpr size_t kPartBytes = size_t{256} << 10;

  struct Place {
    Call call;
    alignas(64) std::array<std::byte, kPartBytes> part;
  };
  struct OfRank {
    alignas(64) std::atomic<uint64_t> num_arrivals;  // At exchanges.
    std::array<Place, 2> places;
  };

  alignas(64) std::atomic<uint64_t> num_arrivals;  // Of all ranks together.
  std::array<OfRank, kMaxRanks> ranks;
};

// Messages of the first rank to the others, and what they say of each
// (plan_channel.cc).
struct PlanMemory {
  // Longer than any plan that a scheduler can send.
  static constexpr size_t kMaxMessageBytes = size_t{32} << 20;

  struct OfRank {
    alignas(64) std::atomic<uint64_t> num_done;  // Messages.
    std::atomic<uint64_t> num_rounds;            // Of all messages together.
    // Round i has entry i % kMaxLeaseRounds. The first rank has compared all
    // rounds of a message before it sends the next one.
    std::array<uint64_t, kMaxLeaseRounds> digests;
  };

  alignas(64) std::atomic<uint64_t> num_messages;
  std::atomic<bool> is_over;
  uint64_t message_bytes;
  std::array<OfRank, kMaxRanks> ranks;
  alignas(64) std::array<std::byte, kMaxMessageBytes> message;
};

// Nothing here is locked: a rank may die or be stopped at any instruction, and
// the others must go on. What is written often has a cache line of its own.
// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding)
struct GroupMemory {
  static constexpr uint64_t kMagic = 0x31304b4e41524542;
  static constexpr size_t kReasonBytes = 1024;

  // Constant once others know of the memory.
  uint64_t magic;
  int32_t num_ranks;
  pid_t owner;  // The process of the first rank.

  std::atomic<int64_t> deadline_ms;  // Below 0: none.
  // Whoever waits reads it, looks whether it has to wait, and sleeps while it
  // is the same. Changes with everything that is waited for.
  alignas(64) std::atomic<uint32_t> event;
  // 0, or why the group has ended: 1 + the rank that says so in its reason,
  // and a status code times 256.
  std::atomic<uint32_t> failure;
  // By rank; ends with a zero. Written once at most, before `failure` names it.
  std::array<std::array<char, kReasonBytes>, kMaxRanks> reasons;

  CollectiveMemory collectives;
  PlanMemory plans;
};

static_assert(std::atomic<uint64_t>::is_always_lock_free);
static_assert(std::atomic<bool>::is_always_lock_free);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_RANKS_GROUP_MEMORY_H_
