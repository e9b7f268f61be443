// The means by which the ranks of a model, threads or processes, wait for one
// another.
#ifndef BOLE_WORKER_SERVICE_RANKS_RANK_GROUP_H_
#define BOLE_WORKER_SERVICE_RANKS_RANK_GROUP_H_

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/mutex.h"

namespace bole {

// More ranks would have nothing to do for any published size.
inline constexpr int kMaxRanks = 16;

struct GroupMemory;  // group_memory.h

// Memory that several processes may map, in which ranks wait for one another.
// The first failure ends the group: from then on nobody waits any more, and all
// ranks report the same reason.
//
// A waiting rank is blocked and uses no processor time. A process may end or be
// stopped at any moment, so no rank holds a lock that another process needs.
// Whoever notices that a rank is gone calls End().
//
// Thread-safe. COST: some 40 MiB of address space, of which only the used part
// takes memory.
class RankGroup {
 public:
  // REQUIRES: 1 <= num_ranks <= kMaxRanks. Errors: the system is out of memory
  // or of descriptors.
  static absl::StatusOr<std::shared_ptr<RankGroup>> Create(int num_ranks);
  // The group whose descriptor() this is or is a copy of. The descriptor stays
  // open. INVALID_ARGUMENT if it is something else.
  static absl::StatusOr<std::shared_ptr<RankGroup>> Join(int descriptor);
  ~RankGroup();

  RankGroup(const RankGroup&) = delete;
  RankGroup& operator=(const RankGroup&) = delete;

  int num_ranks() const;
  // Identifies the memory; closed when another program is executed. Lives as
  // long as this.
  int descriptor() const { return descriptor_; }
  // The process that created the group.
  pid_t owner() const;

  // How long ranks wait for one another from now on. Without a value, as
  // initially, they wait without limit. A wait that has begun keeps its own
  // limit.
  using Deadline = std::optional<std::chrono::milliseconds>;
  void SetDeadline(Deadline deadline);
  Deadline deadline() const;

  // Ends the group if it has not ended. `speaker` is a rank of this process,
  // and need not be the one that failed. A long message is truncated.
  void End(int speaker, const absl::Status& why);
  // Ends the group with UNAVAILABLE and the reason why `rank` cannot go on.
  void Leave(int rank, const absl::Status& why);
  // Why the group has ended; OK while it has not.
  absl::Status failure() const;

  // How a wait ends. The condition takes precedence: if it holds, the wait ends
  // with kDone even if the group has ended.
  enum class Wait { kDone, kEnded, kLate };
  // Waits until `is_done` or until the group ends, for at most `limit`. Time in
  // which this process was stopped does not count.
  Wait Await(const std::function<bool()>& is_done, Deadline limit) const;
  // Makes all waiters check their conditions again.
  void Wake();

  // All of it is zero at first.
  GroupMemory& memory() const { return *memory_; }

 private:
  RankGroup(int descriptor, GroupMemory* memory)
      : descriptor_(descriptor), memory_(memory) {}

  const int descriptor_;
  GroupMemory* const memory_;
  // Serialises the ranks of this process that end the group. Other processes do
  // not use it.
  Mutex end_mutex_;
};

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_RANKS_RANK_GROUP_H_
