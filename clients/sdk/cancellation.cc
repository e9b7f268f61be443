#include "clients/sdk/cancellation.h"

namespace bole {

void Cancellation::Cancel() {
  MutexLock lock(mutex_);
  cancelled_ = true;
  for (grpc::ClientContext* context : contexts_) context->TryCancel();
  changed_.NotifyAll();
}

bool Cancellation::cancelled() const {
  MutexLock lock(mutex_);
  return cancelled_;
}

bool Cancellation::SleepUntil(std::chrono::steady_clock::time_point time) {
  MutexLock lock(mutex_);
  while (!cancelled_ && changed_.WaitUntil(mutex_, time)) {
  }
  return !cancelled_;
}

Cancellation::Scope::Scope(Cancellation& cancellation,
                           grpc::ClientContext& context)
    : cancellation_(cancellation), context_(context) {
  MutexLock lock(cancellation_.mutex_);
  cancellation_.contexts_.push_back(&context_);
  if (cancellation_.cancelled_) context_.TryCancel();
}

Cancellation::Scope::~Scope() {
  MutexLock lock(cancellation_.mutex_);
  std::erase(cancellation_.contexts_, &context_);
}

}  // namespace bole
