#include "worker_service/ranks/host_communicator.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/status_macros.h"
#include "worker_service/ranks/group_memory.h"

namespace bole {
namespace {

using Call = CollectiveMemory::Call;
using Kind = CollectiveMemory::Kind;
constexpr size_t kPartBytes = CollectiveMemory::kPartBytes;

std::string Describe(const Call& call) {
  return absl::StrCat(
      call.kind == Kind::kAllReduce ? "an all-reduce" : "an all-gather", " of ",
      call.part_bytes, " bytes to ", call.result_bytes);
}

class HostCommunicator final : public Communicator {
 public:
  HostCommunicator(std::shared_ptr<RankGroup> group, int rank)
      : group_(std::move(group)),
        rank_{rank, group_->num_ranks()},
        memory_(group_->memory().collectives) {}
  ~HostCommunicator() override {
    Abort(absl::CancelledError("its communicator was destroyed"));
  }

  Rank rank() const override { return rank_; }

  absl::Status AllReduce(std::span<const float> part,
                         std::span<float> sum) override;
  absl::Status AllGather(std::span<const std::byte> part,
                         std::span<std::byte> whole) override;
  void Abort(const absl::Status& reason) override {
    group_->Leave(rank_.index, reason);
  }

 private:
  // What rank r contributed to the last exchange.
  const CollectiveMemory::Place& Given(size_t r) const {
    return memory_.ranks[r].places[(num_exchanges_ - 1) % 2];
  }
  size_t num_ranks() const { return static_cast<size_t>(rank_.count); }

  // Contributes `piece` of a call and waits for the pieces of all ranks. They
  // stay unchanged until the next exchange but one begins.
  absl::Status Exchange(const Call& call, std::span<const std::byte> piece);
  // Returns an error if the calls of the ranks do not match.
  absl::Status CheckCalls() const;
  // The ranks that have not arrived at the last exchange: at least one, if not
  // all arrivals are counted.
  std::string Missing() const;
  absl::Status Fail(const absl::Status& why) {
    group_->End(rank_.index, why);
    return group_->failure();
  }

  const std::shared_ptr<RankGroup> group_;
  const Rank rank_;
  CollectiveMemory& memory_;
  uint64_t num_exchanges_ = 0;
  uint64_t num_calls_ = 0;  // Finished calls.
};

absl::Status HostCommunicator::AllReduce(std::span<const float> part,
                                         std::span<float> sum) {
  BOLE_CHECK(part.size() == sum.size());
  const Call call{.kind = Kind::kAllReduce,
                  .part_bytes = part.size_bytes(),
                  .result_bytes = sum.size_bytes()};
  size_t begin = 0;
  do {
    const size_t count =
        std::min(part.size() - begin, kPartBytes / sizeof(float));
    BOLE_RETURN_IF_ERROR(
        Exchange(call, std::as_bytes(part.subspan(begin, count))));
    const std::span<float> out = sum.subspan(begin, count);
    for (size_t r = 0; r < num_ranks(); ++r) {
      const auto* given = reinterpret_cast<const float*>(Given(r).part.data());
      for (size_t i = 0; i < count; ++i) {
        out[i] = r == 0 ? given[i] : out[i] + given[i];
      }
    }
    begin += count;
  } while (begin < part.size());
  ++num_calls_;
  return absl::OkStatus();
}

absl::Status HostCommunicator::AllGather(std::span<const std::byte> part,
                                         std::span<std::byte> whole) {
  const Call call{.kind = Kind::kAllGather,
                  .part_bytes = part.size(),
                  .result_bytes = whole.size()};
  size_t begin = 0;    // Where the piece begins in every part.
  size_t longest = 0;  // The size of the longest part.
  do {
    const size_t own = std::min(begin, part.size());
    BOLE_RETURN_IF_ERROR(Exchange(
        call, part.subspan(own, std::min(part.size() - own, kPartBytes))));
    size_t of_rank = 0;  // Where the part of a rank begins.
    for (size_t r = 0; r < num_ranks(); ++r) {
      const size_t bytes = Given(r).call.part_bytes;
      longest = std::max(longest, bytes);
      if (begin < bytes) {
        std::copy_n(
            Given(r).part.begin(), std::min(bytes - begin, kPartBytes),
            whole.begin() + static_cast<std::ptrdiff_t>(of_rank + begin));
      }
      of_rank += bytes;
    }
    begin += kPartBytes;
  } while (begin < longest);
  ++num_calls_;
  return absl::OkStatus();
}

absl::Status HostCommunicator::Exchange(const Call& call,
                                        std::span<const std::byte> piece) {
  BOLE_RETURN_IF_ERROR(group_->failure());
  CollectiveMemory::OfRank& own =
      memory_.ranks[static_cast<size_t>(rank_.index)];
  CollectiveMemory::Place& place = own.places[num_exchanges_ % 2];
  place.call = call;
  std::copy(piece.begin(), piece.end(), place.part.begin());
  const uint64_t all = ++num_exchanges_ * num_ranks();
  const uint64_t num_arrived = ++memory_.num_arrivals;
  own.num_arrivals = num_exchanges_;  // Not before: see Missing().
  if (num_arrived == all) group_->Wake();
  const RankGroup::Deadline deadline = group_->deadline();
  switch (
      group_->Await([&] { return memory_.num_arrivals >= all; }, deadline)) {
    case RankGroup::Wait::kEnded:
      return group_->failure();
    case RankGroup::Wait::kLate:
      return Fail(absl::DeadlineExceededError(
          absl::StrCat(Missing(), " of ", num_ranks(), " did not come to call ",
                       num_calls_, " within ", deadline->count(), " ms")));
    case RankGroup::Wait::kDone:
      break;
  }
  const absl::Status same = CheckCalls();
  return same.ok() ? same : Fail(same);
}

absl::Status HostCommunicator::CheckCalls() const {
  const Call& first = Given(0).call;
  size_t gathered = 0;
  for (size_t r = 0; r < num_ranks(); ++r) {
    const Call& call = Given(r).call;
    gathered += call.part_bytes;
    if (call.kind == first.kind && call.result_bytes == first.result_bytes &&
        (call.kind == Kind::kAllGather ||
         call.part_bytes == first.part_bytes)) {
      continue;
    }
    return absl::InternalError(
        absl::StrCat("ranks diverged in call ", num_calls_, ": rank 0 makes ",
                     Describe(first), ", rank ", r, " ", Describe(call)));
  }
  if (first.kind == Kind::kAllGather && gathered != first.result_bytes) {
    return absl::InternalError(absl::StrCat("call ", num_calls_, " gathers ",
                                            gathered, " bytes of all ranks to ",
                                            first.result_bytes));
  }
  return absl::OkStatus();
}

std::string HostCommunicator::Missing() const {
  std::string missing;
  for (size_t r = 0; r < num_ranks(); ++r) {
    if (memory_.ranks[r].num_arrivals >= num_exchanges_) continue;
    absl::StrAppend(&missing, missing.empty() ? "rank " : " and rank ", r);
  }
  return missing;
}

}  // namespace

std::unique_ptr<Communicator> MakeHostCommunicator(
    std::shared_ptr<RankGroup> group, int rank) {
  BOLE_CHECK(rank >= 0 && rank < group->num_ranks());
  return std::make_unique<HostCommunicator>(std::move(group), rank);
}

}  // namespace bole
