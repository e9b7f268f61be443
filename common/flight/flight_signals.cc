#include "common/flight/flight_signals.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/check.h"

namespace bole {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::minutes kBetweenFaults(1);

// Added to the eventfd's count to stop the thread. There can never be as many
// faults.
constexpr uint64_t kStop = uint64_t{1} << 62;

sigset_t FlightSignal() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  return set;
}

std::atomic<const FlightFile*> crash_file{nullptr};

void OnCrash(int signal) {
  // Only the first thread that crashes writes.
  const FlightFile* const file = crash_file.exchange(nullptr);
  if (file != nullptr) file->WriteInHandler(FlightReason::kCrash);
  // The signal's default action has been restored (SA_RESETHAND), and the
  // signal is not blocked (SA_NODEFER).
  raise(signal);
}

}  // namespace

void BlockFlightSignal() {
  const sigset_t set = FlightSignal();
  BOLE_CHECK(pthread_sigmask(SIG_BLOCK, &set, nullptr) == 0);
}

absl::StatusOr<std::unique_ptr<FlightWriter>> FlightWriter::Start(
    const FlightFile* file, Note note) {
  const sigset_t set = FlightSignal();
  const int signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  if (signals < 0) {
    return absl::InternalError(absl::StrCat("signalfd: errno ", errno));
  }
  const int asked = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (asked < 0) {
    const int error = errno;
    close(signals);
    return absl::InternalError(absl::StrCat("eventfd: errno ", error));
  }
  return std::unique_ptr<FlightWriter>(
      new FlightWriter(file, std::move(note), signals, asked));
}

FlightWriter::FlightWriter(const FlightFile* file, Note note, int signals,
                           int asked)
    : file_(file),
      note_(std::move(note)),
      signals_(signals),
      asked_(asked),
      thread_([this] { Run(); }) {}

FlightWriter::~FlightWriter() {
  BOLE_CHECK(write(asked_, &kStop, sizeof(kStop)) == sizeof(kStop));
  thread_.join();
  close(asked_);
  close(signals_);
}

void FlightWriter::AskForFault() {
  const uint64_t one = 1;
  // This fails only if the eventfd's count would overflow.
  [[maybe_unused]] const ssize_t written = write(asked_, &one, sizeof(one));
}

void FlightWriter::Run() {
  std::optional<Clock::time_point> last_fault;
  std::array<pollfd, 2> descriptors = {
      {{.fd = signals_, .events = POLLIN, .revents = 0},
       {.fd = asked_, .events = POLLIN, .revents = 0}}};
  for (;;) {
    if (poll(descriptors.data(), descriptors.size(), -1) < 0) {
      BOLE_CHECK(errno == EINTR);
      continue;
    }
    signalfd_siginfo info;
    if (read(signals_, &info, sizeof(info)) == sizeof(info)) {
      Write(FlightReason::kSignal);
    }
    uint64_t count = 0;
    if (read(asked_, &count, sizeof(count)) != sizeof(count)) continue;
    if (count >= kStop) return;
    const Clock::time_point now = Clock::now();
    if (file_ == nullptr) continue;
    if (last_fault && now - *last_fault < kBetweenFaults) continue;
    last_fault = now;
    Write(FlightReason::kFault);
  }
}

void FlightWriter::Write(FlightReason reason) const {
  if (file_ == nullptr) {
    note_(
        "SIGUSR1 writes the flight record into the folder of "
        "--flight-recorder-dir, and there is none");
    return;
  }
  note_(DescribeFlightFile(file_->Write(reason)));
}

std::string DescribeFlightFile(const absl::StatusOr<std::string>& path) {
  return path.ok() ? absl::StrCat("the flight record is in ", *path)
                   : absl::StrCat("the flight record could not be written: ",
                                  path.status().message());
}

void WriteOnCrash(const FlightFile* file) {
  crash_file = file;
  if (file == nullptr) return;
  struct sigaction action = {};
  action.sa_handler = OnCrash;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_NODEFER);
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT}) {
    BOLE_CHECK(sigaction(signal, &action, nullptr) == 0);
  }
}

}  // namespace bole
