#include "worker_service/ranks/host_communicator.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/mutex.h"
#include "common/status_macros.h"

namespace bole {
namespace {

enum class CallKind { kAllReduce, kAllGather };

// What a rank calls.
struct Call {
  CallKind kind = CallKind::kAllReduce;
  std::span<const std::byte> part;
  size_t result_bytes = 0;
};

std::string Describe(const Call& call) {
  return absl::StrCat(
      call.kind == CallKind::kAllReduce ? "an all-reduce" : "an all-gather",
      " of ", call.part.size(), " bytes to ", call.result_bytes);
}

// Where the ranks meet when all have made a call, and where they wait until all
// have read one another's parts.
class HostGroup {
 public:
  HostGroup(int num_ranks, std::chrono::milliseconds deadline)
      : deadline_(deadline),
        calls_(static_cast<size_t>(num_ranks)),
        is_present_(calls_.size()) {}

  // The calls of all ranks, once they have made them. Their parts stay as they
  // are until this rank has left the call.
  absl::StatusOr<std::vector<Call>> Enter(int rank, const Call& call) {
    MutexLock lock(mutex_);
    if (failure_ != absl::StatusCode::kOk) return Failure();
    calls_[static_cast<size_t>(rank)] = call;
    is_present_[static_cast<size_t>(rank)] = true;
    const int64_t number = num_calls_;
    if (Missing().empty()) Meet();
    const auto end = std::chrono::steady_clock::now() + deadline_;
    while (num_calls_ == number && failure_ == absl::StatusCode::kOk) {
      if (met_.WaitUntil(mutex_, end) || num_calls_ != number) continue;
      Fail(absl::StatusCode::kDeadlineExceeded,
           absl::StrCat(Missing(), " of ", calls_.size(),
                        " did not come to call ", number, " within ",
                        deadline_.count(), " ms"));
    }
    if (num_calls_ == number) return Failure();
    return calls_;
  }

  // After Enter(). No deadline: who reads waits for nobody, and its memory must
  // not go away before it is done, whatever has happened.
  void Leave() {
    MutexLock lock(mutex_);
    if (--num_reading_ == 0) met_.NotifyAll();
    while (num_reading_ > 0) met_.Wait(mutex_);
  }

  // The first reason counts.
  void End(absl::StatusCode code, const std::string& reason) {
    MutexLock lock(mutex_);
    Fail(code, reason);
  }

 private:
  // All ranks are here.
  void Meet() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    CheckCalls();
    if (failure_ != absl::StatusCode::kOk) return;
    std::fill(is_present_.begin(), is_present_.end(), false);
    num_reading_ = calls_.size();
    ++num_calls_;
    met_.NotifyAll();
  }

  void CheckCalls() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const Call& first = calls_[0];
    size_t gathered = 0;
    for (size_t r = 0; r < calls_.size(); ++r) {
      const Call& call = calls_[r];
      gathered += call.part.size();
      if (call.kind == first.kind && call.result_bytes == first.result_bytes &&
          (call.kind == CallKind::kAllGather ||
           call.part.size() == first.part.size())) {
        continue;
      }
      return Fail(
          absl::StatusCode::kInternal,
          absl::StrCat("ranks diverged in call ", num_calls_, ": rank 0 makes ",
                       Describe(first), ", rank ", r, " ", Describe(call)));
    }
    if (first.kind == CallKind::kAllGather && gathered != first.result_bytes) {
      Fail(absl::StatusCode::kInternal,
           absl::StrCat("call ", num_calls_, " gathers ", gathered,
                        " bytes of all ranks to ", first.result_bytes));
    }
  }

  // The ranks that are not here.
  std::string Missing() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    std::string missing;
    for (size_t r = 0; r < is_present_.size(); ++r) {
      if (is_present_[r]) continue;
      absl::StrAppend(&missing, missing.empty() ? "rank " : " and rank ", r);
    }
    return missing;
  }

  void Fail(absl::StatusCode code, const std::string& reason)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (failure_ != absl::StatusCode::kOk) return;
    failure_ = code;
    reason_ = reason;
    met_.NotifyAll();
  }
  absl::Status Failure() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return {failure_, reason_};
  }

  const std::chrono::milliseconds deadline_;
  Mutex mutex_;
  CondVar met_;
  std::vector<Call> calls_ ABSL_GUARDED_BY(mutex_);       // By rank.
  std::vector<bool> is_present_ ABSL_GUARDED_BY(mutex_);  // By rank.
  int64_t num_calls_ ABSL_GUARDED_BY(mutex_) = 0;         // That have met.
  size_t num_reading_ ABSL_GUARDED_BY(mutex_) = 0;        // Ranks.
  // Not a Status: its shared text would be freed by whichever thread is last.
  absl::StatusCode failure_ ABSL_GUARDED_BY(mutex_) = absl::StatusCode::kOk;
  std::string reason_ ABSL_GUARDED_BY(mutex_);
};

class HostCommunicator final : public Communicator {
 public:
  HostCommunicator(std::shared_ptr<HostGroup> group, Rank rank)
      : group_(std::move(group)), rank_(rank) {}
  ~HostCommunicator() override { Leave("its communicator was destroyed"); }

  Rank rank() const override { return rank_; }

  absl::Status AllReduce(std::span<const float> part,
                         std::span<float> sum) override {
    BOLE_CHECK(part.size() == sum.size());
    BOLE_ASSIGN_OR_RETURN(
        const std::vector<Call> calls,
        group_->Enter(rank_.index, {.kind = CallKind::kAllReduce,
                                    .part = std::as_bytes(part),
                                    .result_bytes = sum.size_bytes()}));
    for (size_t r = 0; r < calls.size(); ++r) {
      const auto* of_rank =
          reinterpret_cast<const float*>(calls[r].part.data());
      for (size_t i = 0; i < sum.size(); ++i) {
        sum[i] = r == 0 ? of_rank[i] : sum[i] + of_rank[i];
      }
    }
    group_->Leave();
    return absl::OkStatus();
  }

  absl::Status AllGather(std::span<const std::byte> part,
                         std::span<std::byte> whole) override {
    BOLE_ASSIGN_OR_RETURN(
        const std::vector<Call> calls,
        group_->Enter(rank_.index, {.kind = CallKind::kAllGather,
                                    .part = part,
                                    .result_bytes = whole.size()}));
    auto out = whole.begin();
    for (const Call& call : calls) {
      out = std::copy(call.part.begin(), call.part.end(), out);
    }
    group_->Leave();
    return absl::OkStatus();
  }

  void Abort(const absl::Status& reason) override {
    Leave(std::string(reason.message()));
  }

 private:
  void Leave(const std::string& why) {
    group_->End(absl::StatusCode::kUnavailable,
                absl::StrCat("rank ", rank_.index, " of ", rank_.count,
                             " has left: ", why));
  }

  const std::shared_ptr<HostGroup> group_;
  const Rank rank_;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> MakeHostCommunicators(
    int num_ranks, std::chrono::milliseconds deadline) {
  BOLE_CHECK(num_ranks >= 1);
  const auto group = std::make_shared<HostGroup>(num_ranks, deadline);
  std::vector<std::unique_ptr<Communicator>> ranks;
  ranks.reserve(static_cast<size_t>(num_ranks));
  for (int r = 0; r < num_ranks; ++r) {
    ranks.push_back(
        std::make_unique<HostCommunicator>(group, Rank{r, num_ranks}));
  }
  return ranks;
}

}  // namespace bole
