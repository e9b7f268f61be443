#include "clients/cli/interrupt.h"

#include <pthread.h>
#include <unistd.h>

#include <cstdio>

#include "clients/cli/failure.h"

namespace bole {
namespace {

// Everything printed was flushed, and main() may be waiting for a line.
[[noreturn]] void EndProcess() {
  // The shell's next line starts below the "^C" of the terminal.
  if (isatty(STDERR_FILENO) != 0) std::fputs("\n", stderr);
  _exit(kExitCancelled);
}

}  // namespace

Interrupt::Interrupt() {
  sigemptyset(&signals_);
  sigaddset(&signals_, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
  thread_ = std::thread([this] { WaitForSignals(); });
}

Interrupt::~Interrupt() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  pthread_kill(thread_.native_handle(), SIGINT);
  thread_.join();
}

void Interrupt::WaitForSignals() {
  while (true) {
    int signal = 0;
    sigwait(&signals_, &signal);
    MutexLock lock(mutex_);
    if (stopping_) return;
    if (call_ == nullptr) EndProcess();
    call_->TryCancel();
  }
}

CancelOnInterrupt::CancelOnInterrupt(Interrupt& interrupt,
                                     grpc::ClientContext& call)
    : interrupt_(interrupt) {
  MutexLock lock(interrupt_.mutex_);
  interrupt_.call_ = &call;
}

CancelOnInterrupt::~CancelOnInterrupt() {
  MutexLock lock(interrupt_.mutex_);
  interrupt_.call_ = nullptr;
}

}  // namespace bole
