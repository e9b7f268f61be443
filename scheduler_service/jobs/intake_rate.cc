#include "scheduler_service/jobs/intake_rate.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace bole {
namespace {

using std::chrono::milliseconds;

// What was taken in this long ago counts 1/e.
constexpr double kMemorySeconds = 10;

}  // namespace

void IntakeRate::PassTo(TimePoint now) {
  const double passed =
      std::max(0.0, std::chrono::duration<double>(now - last_).count());
  const double kept = std::exp(-passed / kMemorySeconds);
  tokens_ *= kept;
  seconds_ *= kept;
  if (waiting_) seconds_ += kMemorySeconds * (1 - kept);
  last_ = now;
}

void IntakeRate::SetWaiting(bool waiting, TimePoint now) {
  PassTo(now);
  waiting_ = waiting;
}

void IntakeRate::TookIn(size_t tokens, TimePoint now) {
  PassTo(now);
  tokens_ += static_cast<double>(tokens);
}

milliseconds IntakeRate::RetryDelay(size_t waiting_tokens,
                                    TimePoint now) const {
  IntakeRate at_now = *this;
  at_now.PassTo(now);
  if (at_now.tokens_ <= 0) return kFirstRetryDelay;
  const double ms = std::ceil(1000.0 * static_cast<double>(waiting_tokens) *
                              at_now.seconds_ / at_now.tokens_);
  return milliseconds(static_cast<int64_t>(
      std::clamp(ms, static_cast<double>(kMinRetryDelay.count()),
                 static_cast<double>(kMaxRetryDelay.count()))));
}

}  // namespace bole
