#include "clients/cli/interrupt.h"

#include <pthread.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

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
    if (action_ == nullptr) EndProcess();
    action_();
  }
}

OnInterrupt::OnInterrupt(Interrupt& interrupt, std::function<void()> action)
    : interrupt_(interrupt) {
  MutexLock lock(interrupt_.mutex_);
  interrupt_.action_ = std::move(action);
}

OnInterrupt::~OnInterrupt() {
  MutexLock lock(interrupt_.mutex_);
  interrupt_.action_ = nullptr;
}

}  // namespace bole
