// Where the ranks of a model meet, be they threads or processes.
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

// More have nothing to do on any published size.
inline constexpr int kMaxRanks = 16;

struct GroupMemory;  // group_memory.h

// Memory that several processes may map, in which ranks wait for one another.
// The first failure ends the group: from then on nobody waits any more, and all
// have the same reason.
//
// A rank that waits is blocked, and takes no time of a processor. A process may
// end, or be stopped, at any moment: nobody holds a lock that another one
// needs. Who notices that a rank is gone says so with End().
//
// Thread-safe. COST: some 40 MiB of address space, of which what is used takes
// memory.
class RankGroup {
 public:
  // REQUIRES: 1 <= num_ranks <= kMaxRanks. Errors: the system has no memory or
  // no descriptor left.
  static absl::StatusOr<std::shared_ptr<RankGroup>> Create(int num_ranks);
  // The group whose descriptor() this is, or is a copy of, which stays open.
  // INVALID_ARGUMENT if it is something else.
  static absl::StatusOr<std::shared_ptr<RankGroup>> Join(int descriptor);
  ~RankGroup();

  RankGroup(const RankGroup&) = delete;
  RankGroup& operator=(const RankGroup&) = delete;

  int num_ranks() const;
  // Names the memory; closed when another program is executed. Lives as long as
  // this.
  int descriptor() const { return descriptor_; }
  // The process that created the group.
  pid_t owner() const;

  // How long ranks wait for one another from now on; if left out, and at first,
  // as long as it takes. A wait that has begun keeps its own limit.
  using Deadline = std::optional<std::chrono::milliseconds>;
  void SetDeadline(Deadline deadline);
  Deadline deadline() const;

  // Ends the group, if it has not ended. `speaker` is a rank of this process,
  // and need not be the one that failed. A long message is cut off.
  void End(int speaker, const absl::Status& why);
  // The same with UNAVAILABLE and the reason of a rank that can do no more.
  void Leave(int rank, const absl::Status& why);
  // Why the group has ended; OK while it has not.
  absl::Status failure() const;

  // What a wait ends with. What is waited for comes first: a group that has
  // ended before that is there gives it still.
  enum class Wait { kDone, kEnded, kLate };
  // Waits until `is_done` or the group ends, for `limit` at most. Time in which
  // this process was stopped does not count.
  Wait Await(const std::function<bool()>& is_done, Deadline limit) const;
  // Has those who wait look again.
  void Wake();

  // All of it is zero at first.
  GroupMemory& memory() const { return *memory_; }

 private:
  RankGroup(int descriptor, GroupMemory* memory)
      : descriptor_(descriptor), memory_(memory) {}

  const int descriptor_;
  GroupMemory* const memory_;
  // Ranks of this process end the group one at a time. No other process knows
  // of it.
  Mutex end_mutex_;
};

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_RANKS_RANK_GROUP_H_
