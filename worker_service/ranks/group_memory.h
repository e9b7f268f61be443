// The layout of the memory that the ranks of a model share.
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

// The calls of a Communicator (host_communicator.cc). A call consists of one or
// several exchanges, and all ranks make the same ones; each rank writes its
// part of exchange i to place i % 2. No rank is two exchanges ahead of another,
// so all ranks have read a place before it is written again.
struct CollectiveMemory {
  enum class Kind : int32_t { kAllReduce, kAllGather };
  struct Call {
    Kind kind;
    uint64_t part_bytes;    // Contributed by this rank.
    uint64_t result_bytes;  // Received by every rank.

    friend bool operator==(const Call&, const Call&) = default;
  };
  // The most that a rank contributes to one exchange. A multiple of a float's
  // size.
  static constexpr size_t kPartBytes = size_t{256} << 10;

  struct Place {
    Call call;
    alignas(64) std::array<std::byte, kPartBytes> part;
  };
  struct OfRank {
    alignas(64) std::atomic<uint64_t> num_arrivals;  // At exchanges.
    std::array<Place, 2> places;
  };

  alignas(64) std::atomic<uint64_t> num_arrivals;  // All ranks' together.
  std::array<OfRank, kMaxRanks> ranks;
};

// Messages of the first rank to the others, and the others' answers to each
// (plan_channel.cc).
struct PlanMemory {
  // Longer than any plan that a scheduler can send.
  static constexpr size_t kMaxMessageBytes = size_t{32} << 20;

  struct OfRank {
    alignas(64) std::atomic<uint64_t> num_done;  // Messages it has finished.
    std::atomic<uint64_t> num_rounds;            // Answered, of all messages.
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

// There are no locks here: a rank may die or be stopped at any instruction, and
// the others must go on. Frequently written members have cache lines of their
// own.
// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding)
struct GroupMemory {
  static constexpr uint64_t kMagic = 0x31304b4e41524542;
  static constexpr size_t kReasonBytes = 1024;

  // These do not change once other ranks know of the memory.
  uint64_t magic;
  int32_t num_ranks;
  pid_t owner;  // The process of the first rank.

  std::atomic<int64_t> deadline_ms;  // Below 0: none.
  // A counter that changes with everything that is waited for. A waiter reads
  // it, checks whether it has to wait, and sleeps while it is unchanged.
  alignas(64) std::atomic<uint32_t> event;
  // 0, or why the group has ended: 1 + the rank whose entry of `reasons` tells
  // it, plus a status code times 256.
  std::atomic<uint32_t> failure;
  // By rank, zero-terminated. Each is written at most once, before `failure`
  // names it.
  std::array<std::array<char, kReasonBytes>, kMaxRanks> reasons;

  CollectiveMemory collectives;
  PlanMemory plans;
};

static_assert(std::atomic<uint64_t>::is_always_lock_free);
static_assert(std::atomic<bool>::is_always_lock_free);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_RANKS_GROUP_MEMORY_H_
