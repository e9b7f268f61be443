// The channel in which the first rank sends plans to the others and compares
// their results.
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

// The first rank's end. Messages go to all other ranks, which run some rounds
// for each. The ranks' results of a round must not differ: ranks that have
// differed once would write different texts from then on.
//
// Every error is one of the group, and ends it:
//   INTERNAL           a rank's result of a round differs; names both.
//   DEADLINE_EXCEEDED  a rank does not answer within the group's deadline;
//                      names it.
//   any other          the reason why the group had already ended.
//
// Not thread-safe. COST: a message is copied into memory that the ranks share,
// and wakes each of them once.
class PlanSender {
 public:
  // REQUIRES: the group has not had another sender.
  explicit PlanSender(std::shared_ptr<RankGroup> group);

  // Sends a message, once all ranks have finished the previous one.
  // RESOURCE_EXHAUSTED, and nothing is sent, if it is longer than 32 MiB.
  absl::Status Send(std::span<const std::byte> message);
  // Waits until all other ranks have reported their digest of the message's
  // next round, and compares them with `digest`. `round` is the number of the
  // round for error messages.
  absl::Status Compare(int round, uint64_t digest);
  // Waits until all ranks have finished the last message.
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
  // REQUIRES: 1 <= rank < group->num_ranks(), and that rank has not had another
  // receiver.
  PlanReceiver(std::shared_ptr<RankGroup> group, int rank);

  // Waits for the next message, however long that takes. It may be read until
  // Done(). Returns nullopt once the sender has closed the channel, and an
  // error if the group ends.
  absl::StatusOr<std::optional<std::span<const std::byte>>> Receive();
  // Reports the digest of the message's next round, without waiting for other
  // ranks. REQUIRES: at most kMaxLeaseRounds rounds for each message.
  void Say(uint64_t digest);
  // This rank has finished the message and will report nothing more for it.
  void Done();

 private:
  const std::shared_ptr<RankGroup> group_;
  const int rank_;
  uint64_t num_received_ = 0;
};

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_RANKS_PLAN_CHANNEL_H_
