#include "clients/sdk/retry_policy.h"

#include <algorithm>

namespace bole {
namespace {

using std::chrono::milliseconds;

// gRPC cancels calls that reach a server just as that stops, and has no better
// code than UNKNOWN or INTERNAL for some streams that a peer resets. The server
// says a reason with all that it ends itself.
bool ConnectionBroke(const CallError& error) {
  if (error.code == grpc::StatusCode::UNAVAILABLE) return true;
  if (!error.reason.empty()) return false;
  switch (error.code) {
    case grpc::StatusCode::CANCELLED:
      return true;
    case grpc::StatusCode::UNKNOWN:
      return error.message.find("Stream removed") != std::string::npos;
    case grpc::StatusCode::INTERNAL:
      return error.message.find("RST_STREAM") != std::string::npos;
    default:
      return false;
  }
}

}  // namespace

Retries::Retries(const RetryPolicy& policy, std::optional<TimePoint> deadline,
                 uint64_t seed)
    : policy_(policy),
      deadline_(deadline),
      random_(static_cast<std::minstd_rand::result_type>(seed)) {}

milliseconds Retries::Backoff() {
  double wait = static_cast<double>(policy_.initial_backoff.count());
  const auto longest = static_cast<double>(policy_.max_backoff.count());
  for (int i = 1; i < failures_ && wait < longest; ++i) wait *= 2;
  std::uniform_real_distribution<double> part(0.5, 1);
  return milliseconds(
      static_cast<int64_t>(std::min(wait, longest) * part(random_)));
}

std::optional<milliseconds> Retries::DelayAfter(const CallError& error,
                                                bool began, bool progressed,
                                                TimePoint now) {
  if (progressed) failures_ = 0;
  ++failures_;
  const int most = began ? policy_.max_resumes : policy_.max_attempts - 1;
  if (failures_ > most) return std::nullopt;
  milliseconds delay = error.retry_after.value_or(milliseconds(0));
  if (ConnectionBroke(error)) {
    delay = std::max(delay, Backoff());
  } else if (error.code == grpc::StatusCode::RESOURCE_EXHAUSTED &&
             error.retry_after && !progressed) {
    // Never sooner than the server says, and not all at once.
    std::uniform_real_distribution<double> part(1, 1.1);
    delay = milliseconds(static_cast<int64_t>(
        static_cast<double>(delay.count()) * part(random_)));
  } else {
    return std::nullopt;
  }
  if (deadline_ && now + delay >= *deadline_) return std::nullopt;
  return delay;
}

}  // namespace bole
