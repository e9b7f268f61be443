// Ctrl-C, which ends the current action or the process.
#ifndef BOLE_CLIENTS_CLI_INTERRUPT_H_
#define BOLE_CLIENTS_CLI_INTERRUPT_H_

#include <csignal>
#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "common/mutex.h"
#include "grpcpp/client_context.h"

namespace bole {

// Waits for SIGINT in a thread of its own, because a signal handler must not
// cancel a call. SIGINT calls the action that is set; without one it ends the
// process with kExitCancelled.
class Interrupt {
 public:
  // Blocks SIGINT in this thread and in those that it starts from now on, so
  // this must come first in main().
  Interrupt();
  ~Interrupt();

  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

 private:
  friend class OnInterrupt;

  void WaitForSignals();

  sigset_t signals_;
  Mutex mutex_;
  std::function<void()> action_ ABSL_GUARDED_BY(mutex_);  // Null: none.
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

// While it lives, SIGINT calls `action`, in a thread of its own. Only one may
// exist at a time; `interrupt` must outlive it.
class OnInterrupt {
 public:
  OnInterrupt(Interrupt& interrupt, std::function<void()> action);
  ~OnInterrupt();  // Afterwards the action does not run any more.

  OnInterrupt(const OnInterrupt&) = delete;
  OnInterrupt& operator=(const OnInterrupt&) = delete;

 private:
  Interrupt& interrupt_;
};

// While it lives, SIGINT cancels `call`, which outlives it.
class CancelOnInterrupt : private OnInterrupt {
 public:
  CancelOnInterrupt(Interrupt& interrupt, grpc::ClientContext& call)
      : OnInterrupt(interrupt, [&call] { call.TryCancel(); }) {}
};

}  // namespace bole

#endif  // BOLE_CLIENTS_CLI_INTERRUPT_H_
