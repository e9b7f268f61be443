// Ctrl-C, which ends a call or the process.
#ifndef BOLE_CLIENTS_CLI_INTERRUPT_H_
#define BOLE_CLIENTS_CLI_INTERRUPT_H_

#include <csignal>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "common/mutex.h"
#include "grpcpp/client_context.h"

namespace bole {

// Waits for SIGINT in a thread of its own: cancelling a call is nothing that a
// signal handler may do. SIGINT cancels the call that runs; without one it ends
// the process with kExitCancelled.
class Interrupt {
 public:
  // Blocks SIGINT in this thread and in those that it starts from now on, so
  // this comes first in main().
  Interrupt();
  ~Interrupt();

  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

 private:
  friend class CancelOnInterrupt;

  void WaitForSignals();

  sigset_t signals_;
  Mutex mutex_;
  grpc::ClientContext* call_ ABSL_GUARDED_BY(mutex_) = nullptr;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

// The call that SIGINT cancels, one at a time. Both outlive this.
class CancelOnInterrupt {
 public:
  CancelOnInterrupt(Interrupt& interrupt, grpc::ClientContext& call);
  ~CancelOnInterrupt();

  CancelOnInterrupt(const CancelOnInterrupt&) = delete;
  CancelOnInterrupt& operator=(const CancelOnInterrupt&) = delete;

 private:
  Interrupt& interrupt_;
};

}  // namespace bole

#endif  // BOLE_CLIENTS_CLI_INTERRUPT_H_
