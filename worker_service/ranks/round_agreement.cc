#include "worker_service/ranks/round_agreement.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace bole {
namespace {

// Where the two part first, for people.
std::string Difference(const StepResult& a, const StepResult& b) {
  const auto of = [](const char* what, const std::vector<SequenceResult>& a,
                     const std::vector<SequenceResult>& b) -> std::string {
    const auto [at, other] =
        std::mismatch(a.begin(), a.end(), b.begin(), b.end());
    if (at == a.end() && other == b.end()) return "";
    return absl::StrCat(what, " ", at - a.begin());
  };
  std::string where = of("prefill", a.prefills, b.prefills);
  if (where.empty()) where = of("sequence", a.sequences, b.sequences);
  return where.empty() ? "the forest" : where;
}

}  // namespace

RoundAgreement::RoundAgreement(int num_ranks,
                               std::chrono::milliseconds deadline)
    : deadline_(deadline), said_(static_cast<size_t>(num_ranks)) {}

void RoundAgreement::Say(int rank, StepResult result) {
  MutexLock lock(mutex_);
  said_[static_cast<size_t>(rank)].rounds.push_back(std::move(result));
  changed_.NotifyAll();
}

void RoundAgreement::Leave(int rank) {
  MutexLock lock(mutex_);
  said_[static_cast<size_t>(rank)].has_left = true;
  changed_.NotifyAll();
}

absl::Status RoundAgreement::Compare(const StepResult& result) {
  MutexLock lock(mutex_);
  for (size_t rank = 1; rank < said_.size(); ++rank) {
    BOLE_RETURN_IF_ERROR(CompareWith(static_cast<int>(rank), result));
  }
  return absl::OkStatus();
}

absl::Status RoundAgreement::CompareWith(int rank, const StepResult& result) {
  Said& said = said_[static_cast<size_t>(rank)];
  const auto end = std::chrono::steady_clock::now() + deadline_;
  while (said.rounds.empty()) {
    if (said.has_left) {
      return absl::UnavailableError(absl::StrCat(
          "rank ", rank, " has no result for round ", result.round));
    }
    if (changed_.WaitUntil(mutex_, end) || !said.rounds.empty()) continue;
    return absl::DeadlineExceededError(
        absl::StrCat("rank ", rank, " gave no result for round ", result.round,
                     " within ", deadline_.count(), " ms"));
  }
  const StepResult other = std::move(said.rounds.front());
  said.rounds.pop_front();
  if (other == result) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("rank ", rank, " differs from rank 0 in round ",
                   result.round, ", in ", Difference(result, other)));
}

}  // namespace bole
