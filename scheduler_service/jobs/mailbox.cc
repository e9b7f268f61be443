#include "scheduler_service/jobs/mailbox.h"

#include <utility>

#include "common/check.h"

namespace bole {
namespace {

AdmissionLoad LoadOf(const Request& request) {
  return {
      .requests = 1, .tokens = request.prompt.size(), .bytes = request.bytes};
}

}  // namespace

std::optional<Refusal> Mailbox::CheckLocked(const std::string& tenant,
                                            const AdmissionLoad& more) const {
  if (mail_.draining || mail_.stopped) return DrainingRefusal();
  const auto found = tenants_.find(tenant);
  const AdmissionLoad own =
      found == tenants_.end() ? AdmissionLoad() : found->second;
  AdmissionLoad others = load_;
  others -= own;
  return CheckAdmission(limits_, own, others, more);
}

std::optional<Refusal> Mailbox::Check(const std::string& tenant,
                                      size_t bytes) const {
  MutexLock lock(mutex_);
  return CheckLocked(tenant, {.requests = 1, .tokens = 1, .bytes = bytes});
}

std::optional<Refusal> Mailbox::Submit(
    std::span<std::unique_ptr<Request>> requests) {
  const std::string tenant = requests[0]->tenant;
  AdmissionLoad more;
  for (const auto& request : requests) more += LoadOf(*request);
  std::vector<std::pair<std::shared_ptr<TokenStream>, JobId>> accepted;
  {
    MutexLock lock(mutex_);
    if (auto refusal = CheckLocked(tenant, more)) return refusal;
    load_ += more;
    tenants_[tenant] += more;
    intake_.SetWaiting(true, clock_());
    for (std::unique_ptr<Request>& request : requests) {
      const JobId job(++num_accepted_);
      request->job = job;
      accepted.emplace_back(request->stream, job);
      mail_.requests.push_back(std::move(request));
    }
  }
  changed_.NotifyAll();
  // Done without the lock, which the hook takes while it holds the stream's
  // lock.
  for (const auto& [stream, job] : accepted) {
    stream->SetCancelHook([this, job = job] { Cancel(job); });
  }
  return std::nullopt;
}

std::chrono::milliseconds Mailbox::RetryDelay() const {
  MutexLock lock(mutex_);
  return intake_.RetryDelay(load_.tokens, clock_());
}

void Mailbox::Post(WorkerEvent event) {
  {
    MutexLock lock(mutex_);
    mail_.events.push_back(std::move(event));
  }
  changed_.NotifyAll();  // Without the lock, which the woken thread takes.
}

std::optional<Mail> Mailbox::PostOrTake(WorkerEvent event) {
  {
    MutexLock lock(mutex_);
    mail_.events.push_back(std::move(event));
    if (lent_) return std::nullopt;  // Return() wakes the loop.
    if (loop_waits_ && !woken_) {
      lent_ = true;
      return TakeAll();
    }
  }
  changed_.NotifyAll();
  return std::nullopt;
}

void Mailbox::Return(TimePoint deadline) {
  {
    MutexLock lock(mutex_);
    lent_ = false;
    if (!HasMail() && deadline >= deadline_) return;
    deadline_ = deadline;
  }
  changed_.NotifyAll();
}

void Mailbox::Cancel(JobId job) {
  MutexLock lock(mutex_);
  mail_.cancelled.push_back(job);
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
  loop_waits_ = true;
  deadline_ = deadline;
  while (lent_ || !HasMail()) {
    if (lent_) deadline_ = TimePoint::max();  // Return() sets it.
    const bool in_time = changed_.WaitUntil(mutex_, deadline_);
    if (!in_time && !lent_) break;
  }
  loop_waits_ = false;
  return TakeAll();
}

bool Mailbox::HasMail() const {
  return woken_ || !mail_.requests.empty() || !mail_.events.empty() ||
         !mail_.cancelled.empty();
}

Mail Mailbox::TakeAll() {
  woken_ = false;
  return std::exchange(mail_, Mail{.requests = {},
                                   .events = {},
                                   .cancelled = {},
                                   .draining = mail_.draining,
                                   .stopped = mail_.stopped});
}

void Mailbox::Release(const Request& request, bool runs) {
  MutexLock lock(mutex_);
  load_ -= LoadOf(request);
  const auto own = tenants_.find(request.tenant);
  BOLE_CHECK(own != tenants_.end());
  own->second -= LoadOf(request);
  if (own->second.requests == 0) tenants_.erase(own);
  const TimePoint now = clock_();
  if (runs) intake_.TookIn(request.prompt.size(), now);
  intake_.SetWaiting(load_.requests > 0, now);
}

AdmissionLoad Mailbox::load() const {
  MutexLock lock(mutex_);
  return load_;
}

}  // namespace bole
