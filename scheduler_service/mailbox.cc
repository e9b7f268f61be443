#include "scheduler_service/mailbox.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "scheduler_service/refusal.h"

namespace bole {
namespace {

absl::Status Full(RefusalReason reason, const absl::AlphaNum& waits, size_t max,
                  const absl::AlphaNum& has) {
  return WithReason(
      absl::ResourceExhaustedError(
          absl::StrCat(NameOf(reason), ": ", waits, ", of at most ", max, has)),
      reason);
}

// OK if `request` may wait with what waits already.
absl::Status CheckRoom(const AdmissionLimits& limits, const AdmissionLoad& load,
                       const Request& request) {
  if (load.requests + 1 > limits.max_requests) {
    return Full(RefusalReason::kQueueRequests,
                absl::StrCat(load.requests, " requests wait"),
                limits.max_requests, "");
  }
  if (load.requests == 0) return absl::OkStatus();
  if (load.tokens + request.prompt.size() > limits.max_tokens) {
    return Full(RefusalReason::kQueueTokens,
                absl::StrCat(load.tokens, " prompt tokens wait"),
                limits.max_tokens,
                absl::StrCat(", and the request has ", request.prompt.size()));
  }
  if (load.bytes + request.bytes > limits.max_bytes) {
    return Full(RefusalReason::kQueueBytes,
                absl::StrCat(load.bytes, " bytes wait"), limits.max_bytes,
                absl::StrCat(", and the request has ", request.bytes));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Mailbox::Submit(std::unique_ptr<Request>& request) {
  MutexLock lock(mutex_);
  if (mail_.draining || mail_.stopped) {
    return WithReason(absl::UnavailableError("the server is shutting down"),
                      RefusalReason::kDraining);
  }
  absl::Status room = CheckRoom(limits_, load_, *request);
  if (!room.ok()) return room;
  ++load_.requests;
  load_.tokens += request->prompt.size();
  load_.bytes += request->bytes;
  mail_.requests.push_back(std::move(request));
  changed_.NotifyAll();
  return absl::OkStatus();
}

void Mailbox::Post(WorkerEvent event) {
  MutexLock lock(mutex_);
  mail_.events.push_back(std::move(event));
  changed_.NotifyAll();
}

void Mailbox::Wake() {
  MutexLock lock(mutex_);
  woken_ = true;
  changed_.NotifyAll();
}

void Mailbox::Drain() {
  MutexLock lock(mutex_);
  mail_.draining = true;
  woken_ = true;
  changed_.NotifyAll();
}

void Mailbox::Stop() {
  MutexLock lock(mutex_);
  mail_.stopped = true;
  woken_ = true;
  changed_.NotifyAll();
}

Mail Mailbox::Take(TimePoint deadline) {
  MutexLock lock(mutex_);
  while (!woken_ && mail_.requests.empty() && mail_.events.empty()) {
    if (!changed_.WaitUntil(mutex_, deadline)) break;
  }
  woken_ = false;
  return std::exchange(mail_, Mail{.requests = {},
                                   .events = {},
                                   .draining = mail_.draining,
                                   .stopped = mail_.stopped});
}

void Mailbox::Release(const Request& request) {
  MutexLock lock(mutex_);
  BOLE_CHECK(load_.requests > 0 && load_.tokens >= request.prompt.size() &&
             load_.bytes >= request.bytes);
  --load_.requests;
  load_.tokens -= request.prompt.size();
  load_.bytes -= request.bytes;
}

AdmissionLoad Mailbox::load() const {
  MutexLock lock(mutex_);
  return load_;
}

}  // namespace bole
