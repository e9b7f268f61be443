#include "worker_service/ranks/plan_channel.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/status_macros.h"
#include "worker_service/ranks/group_memory.h"

namespace bole {

PlanSender::PlanSender(std::shared_ptr<RankGroup> group)
    : group_(std::move(group)) {}

absl::Status PlanSender::Send(std::span<const std::byte> message) {
  PlanMemory& memory = group_->memory().plans;
  if (message.size() > memory.message.size()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a plan of ", message.size(), " bytes for ranks, of ",
                     memory.message.size(), " at most"));
  }
  BOLE_RETURN_IF_ERROR(AwaitDone());
  std::copy(message.begin(), message.end(), memory.message.begin());
  memory.message_bytes = message.size();
  memory.num_messages = ++num_sent_;
  group_->Wake();
  return absl::OkStatus();
}

absl::Status PlanSender::Compare(int round, uint64_t digest) {
  PlanMemory& memory = group_->memory().plans;
  const uint64_t number = num_compared_++;
  for (int rank = 1; rank < group_->num_ranks(); ++rank) {
    PlanMemory::OfRank& other = memory.ranks[static_cast<size_t>(rank)];
    BOLE_RETURN_IF_ERROR(Await(
        rank,
        [&] {
          return other.num_rounds > number || other.num_done == num_sent_;
        },
        absl::StrCat("gave no result for round ", round)));
    std::string difference;
    if (other.num_rounds <= number) {
      difference = absl::StrCat("rank ", rank, " has no round ", round);
    } else if (other.digests[number % kMaxLeaseRounds] != digest) {
      difference =
          absl::StrCat("rank ", rank, " differs from rank 0 in round ", round);
    }
    if (difference.empty()) continue;
    group_->End(0, absl::InternalError(difference));
    return group_->failure();
  }
  return absl::OkStatus();
}

absl::Status PlanSender::AwaitDone() {
  PlanMemory& memory = group_->memory().plans;
  for (int rank = 1; rank < group_->num_ranks(); ++rank) {
    PlanMemory::OfRank& other = memory.ranks[static_cast<size_t>(rank)];
    BOLE_RETURN_IF_ERROR(Await(
        rank, [&] { return other.num_done == num_sent_; }, "did not finish"));
  }
  return group_->failure();
}

void PlanSender::Close() {
  group_->memory().plans.is_over = true;
  group_->Wake();
}

absl::Status PlanSender::Await(int rank, const std::function<bool()>& is_there,
                               const std::string& what) {
  const RankGroup::Deadline deadline = group_->deadline();
  switch (group_->Await(is_there, deadline)) {
    case RankGroup::Wait::kDone:
      return absl::OkStatus();
    case RankGroup::Wait::kLate:
      group_->End(0, absl::DeadlineExceededError(absl::StrCat(
                         "rank ", rank, " of ", group_->num_ranks(), " ", what,
                         " within ", deadline->count(), " ms")));
      break;
    case RankGroup::Wait::kEnded:
      break;
  }
  return group_->failure();
}

PlanReceiver::PlanReceiver(std::shared_ptr<RankGroup> group, int rank)
    : group_(std::move(group)), rank_(rank) {
  BOLE_CHECK(rank >= 1 && rank < group_->num_ranks());
}

absl::StatusOr<std::optional<std::span<const std::byte>>>
PlanReceiver::Receive() {
  PlanMemory& memory = group_->memory().plans;
  const auto is_there = [&] {
    return memory.num_messages > num_received_ || memory.is_over;
  };
  if (group_->Await(is_there, std::nullopt) == RankGroup::Wait::kEnded) {
    return group_->failure();
  }
  if (memory.num_messages == num_received_) return std::nullopt;
  ++num_received_;
  return std::span<const std::byte>(memory.message).first(memory.message_bytes);
}

void PlanReceiver::Say(uint64_t digest) {
  PlanMemory::OfRank& own =
      group_->memory().plans.ranks[static_cast<size_t>(rank_)];
  own.digests[own.num_rounds % kMaxLeaseRounds] = digest;
  ++own.num_rounds;
  group_->Wake();
}

void PlanReceiver::Done() {
  group_->memory().plans.ranks[static_cast<size_t>(rank_)].num_done =
      num_received_;
  group_->Wake();
}

}  // namespace bole
