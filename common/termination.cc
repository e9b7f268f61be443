#include "common/termination.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/check.h"

namespace bole {

absl::StatusOr<Termination> Termination::Block() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  BOLE_CHECK(pthread_sigmask(SIG_BLOCK, &set, nullptr) == 0);
  const int descriptor = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  if (descriptor < 0) {
    return absl::InternalError(absl::StrCat("signalfd: errno ", errno));
  }
  return Termination(descriptor);
}

Termination::Termination(Termination&& other) noexcept
    : signals_(std::exchange(other.signals_, -1)) {}

Termination::~Termination() {
  if (signals_ >= 0) close(signals_);
}

void Termination::Wait() {
  while (!WaitBesides(-1)) continue;
}

bool Termination::RunUntilSignal(const std::function<void()>& work,
                                 const std::function<void()>& interrupt) {
  const int done = eventfd(0, EFD_CLOEXEC);
  BOLE_CHECK(done >= 0);
  std::thread thread([&] {
    work();
    const uint64_t one = 1;
    BOLE_CHECK(write(done, &one, sizeof(one)) == sizeof(one));
  });
  const bool signalled = WaitBesides(done);
  if (signalled) interrupt();
  thread.join();
  close(done);
  return signalled;
}

bool Termination::WaitBesides(int other) {
  // poll() skips descriptors below zero.
  std::array<pollfd, 2> descriptors = {
      {{.fd = signals_, .events = POLLIN, .revents = 0},
       {.fd = other, .events = POLLIN, .revents = 0}}};
  while (poll(descriptors.data(), descriptors.size(), -1) < 0) {
    BOLE_CHECK(errno == EINTR);
  }
  signalfd_siginfo info;
  return read(signals_, &info, sizeof(info)) == sizeof(info);
}

}  // namespace bole
