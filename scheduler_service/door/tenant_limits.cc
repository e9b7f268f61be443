#include "scheduler_service/door/tenant_limits.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"

namespace bole {
namespace {

using std::chrono::milliseconds;

Refusal Busy(const char* what, int max) {
  return {.reason = RefusalReason::kTenantBusy,
          .message = absl::StrCat("tenant_busy: ", what, ": at most ", max,
                                  " are allowed")};
}

std::optional<Refusal> CheckRate(TokenBucket& bucket, const char* what,
                                 std::optional<int> per_minute,
                                 TokenBucket::TimePoint now) {
  if (!per_minute) return std::nullopt;
  const milliseconds wait = bucket.WaitFor(*per_minute, now);
  if (wait == wait.zero()) return std::nullopt;
  Refusal refusal = Busy(what, *per_minute);
  refusal.retry_after = wait;
  return refusal;
}

}  // namespace

milliseconds TokenBucket::WaitFor(int per_minute, TimePoint now) {
  const double per_ms = per_minute / 60'000.0;
  const std::chrono::duration<double, std::milli> passed = now - at_;
  taken_ = std::max(0.0, taken_ - std::max(0.0, passed.count()) * per_ms);
  at_ = std::max(at_, now);
  const double lacking = taken_ + 1 - per_minute;
  if (lacking <= 0) return milliseconds(0);
  return milliseconds(static_cast<int64_t>(std::ceil(lacking / per_ms)));
}

TenantSeat::TenantSeat(std::shared_ptr<TenantAccount> account)
    : account_(std::move(account)) {}

TenantSeat::~TenantSeat() {
  MutexLock lock(account_->mutex_);
  --account_->open_;
}

void TenantSeat::Charge(size_t prompt_tokens) {
  MutexLock lock(account_->mutex_);
  account_->prompt_tokens_.Take(static_cast<double>(prompt_tokens));
}

std::optional<Refusal> TenantAccount::CheckLocked(const TenantLimits& limits,
                                                  TimePoint now) {
  if (limits.concurrent && open_ >= *limits.concurrent) {
    return Busy("requests at the same time", *limits.concurrent);
  }
  auto refusal = CheckRate(requests_, "requests per minute",
                           limits.requests_per_minute, now);
  if (refusal) return refusal;
  return CheckRate(prompt_tokens_, "prompt tokens per minute",
                   limits.prompt_tokens_per_minute, now);
}

std::optional<Refusal> TenantAccount::Check(const TenantLimits& limits,
                                            TimePoint now) {
  MutexLock lock(mutex_);
  return CheckLocked(limits, now);
}

std::variant<std::shared_ptr<TenantSeat>, Refusal> TenantAccount::Enter(
    const TenantLimits& limits, TimePoint now) {
  MutexLock lock(mutex_);
  auto refusal = CheckLocked(limits, now);
  if (refusal) return *std::move(refusal);
  auto seat = std::make_shared<TenantSeat>(shared_from_this());
  ++open_;
  requests_.Take(1);
  return seat;
}

}  // namespace bole
