// How the first rank tells the others what to run, and hears what came of it.
#ifndef BOLE_WORKER_SERVICE_RANKS_PLAN_CHANNEL_H_
#define BOLE_WORKER_SERVICE_RANKS_PLAN_CHANNEL_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker_service/ranks/rank_group.h"

namespace bole {

// The first rank's end. Messages go to all other ranks; each is worked on for
// some rounds, in which ranks must not differ: those that differ once would
// write different texts from then on.
//
// Every error is one of the group, and ends it:
//   INTERNAL           a rank says something else of a round; names both.
//   DEADLINE_EXCEEDED  a rank says nothing for the group's deadline; names it.
//   another            the group had ended for that reason.
//
// Not thread-safe. COST: a message is copied into memory that the ranks share,
// and wakes each of them once.
class PlanSender {
 public:
  // REQUIRES: there is no other sender of the group, nor was one.
  explicit PlanSender(std::shared_ptr<RankGroup> group);

  // Sends a message, once all ranks are done with the one before.
  // RESOURCE_EXHAUSTED, and nothing is sent, for one longer than 32 MiB.
  absl::Status Send(std::span<const std::byte> message);
  // Waits until all other ranks have said what the next round of the message
  // gave, and compares it with `digest`. `round` is its number, for people.
  absl::Status Compare(int round, uint64_t digest);
  // Waits until all ranks are done with the last message.
  absl::Status AwaitDone();
  // There will be no further message.
  void Close();

 private:
  absl::Status Await(int rank, const std::function<bool()>& is_there,
                     const std::string& what);

  const std::shared_ptr<RankGroup> group_;
  uint64_t num_sent_ = 0;
  uint64_t num_compared_ = 0;  // Rounds.
};

// The end of any other rank. Not thread-safe.
class PlanReceiver {
 public:
  // REQUIRES: 1 <= rank < group->num_ranks(), and there is no other receiver of
  // that rank, nor was one.
  PlanReceiver(std::shared_ptr<RankGroup> group, int rank);

  // Waits for the next message, however long that takes. It may be read until
  // Done(). Nothing once the sender has closed the channel; an error if the
  // group ends.
  absl::StatusOr<std::optional<std::span<const std::byte>>> Receive();
  // What the next round of the message gave. Waits for nobody. REQUIRES: at
  // most kMaxLeaseRounds rounds for each message.
  void Say(uint64_t digest);
  // This rank will say nothing more of the message.
  void Done();

 private:
  const std::shared_ptr<RankGroup> group_;
  const int rank_;
  uint64_t num_received_ = 0;
};

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_RANKS_PLAN_CHANNEL_H_
