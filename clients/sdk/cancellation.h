// Ends calls that block another thread.
#ifndef BOLE_CLIENTS_SDK_CANCELLATION_H_
#define BOLE_CLIENTS_SDK_CANCELLATION_H_

#include <chrono>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/mutex.h"
#include "grpcpp/client_context.h"

namespace bole {

// Cancels, once and for all, the calls that were given it, including later
// ones. It must outlive them. Thread-safe.
class Cancellation {
 public:
  Cancellation() = default;

  Cancellation(const Cancellation&) = delete;
  Cancellation& operator=(const Cancellation&) = delete;

  void Cancel();
  bool cancelled() const;

  // Returns true at `time`, or false as soon as Cancel() was called.
  bool SleepUntil(std::chrono::steady_clock::time_point time);

  // While it lives, Cancel() cancels `context`, which outlives it. If it was
  // called already, `context` is cancelled at once.
  class Scope {
   public:
    Scope(Cancellation& cancellation, grpc::ClientContext& context);
    ~Scope();

    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Cancellation& cancellation_;
    grpc::ClientContext& context_;
  };

 private:
  mutable Mutex mutex_;
  CondVar changed_;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<grpc::ClientContext*> contexts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace bole

#endif  // BOLE_CLIENTS_SDK_CANCELLATION_H_
