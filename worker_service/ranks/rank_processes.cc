#include "worker_service/ranks/rank_processes.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "worker_service/ranks/rank_main.h"

namespace bole {
namespace {

using std::chrono::steady_clock;

// How the process of a rank starts: with the group as its only descriptor
// beyond the standard ones, and with the signals blocked that are the first
// rank's.
class SpawnSetup {
 public:
  explicit SpawnSetup(int group) {
    posix_spawn_file_actions_init(&files_);
    posix_spawn_file_actions_addopen(&files_, STDIN_FILENO, "/dev/null",
                                     O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files_, STDERR_FILENO, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&files_, group, kGroupDescriptor);
    posix_spawn_file_actions_addclosefrom_np(&files_, kGroupDescriptor + 1);
    sigset_t signals;
    sigemptyset(&signals);
    for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) {
      sigaddset(&signals, signal);
    }
    posix_spawnattr_init(&attributes_);
    posix_spawnattr_setsigmask(&attributes_, &signals);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK);
  }
  ~SpawnSetup() {
    posix_spawnattr_destroy(&attributes_);
    posix_spawn_file_actions_destroy(&files_);
  }
  SpawnSetup(const SpawnSetup&) = delete;
  SpawnSetup& operator=(const SpawnSetup&) = delete;

  // Returns the process id, or -1 with the reason in errno.
  pid_t Spawn(const std::string& program, int rank) const {
    std::array<std::string, 3> words = {program, kRankCommand,
                                        absl::StrCat(rank)};
    const std::array<char*, 4> arguments = {words[0].data(), words[1].data(),
                                            words[2].data(), nullptr};
    pid_t pid = -1;
    errno = posix_spawn(&pid, program.c_str(), &files_, &attributes_,
                        arguments.data(), environ);
    return errno == 0 ? pid : -1;
  }

 private:
  posix_spawn_file_actions_t files_;
  posix_spawnattr_t attributes_;
};

// `info` comes from waitid(), and is zero if somebody else has waited for the
// process.
std::string HowItEnded(const siginfo_t& info) {
  if (info.si_pid == 0) return "has ended";
  if (info.si_code == CLD_EXITED) {
    return absl::StrCat("ended with status ", info.si_status);
  }
  return absl::StrCat("was killed by signal ", info.si_status, " (",
                      sigdescr_np(info.si_status), ")");
}

}  // namespace

absl::StatusOr<std::unique_ptr<RankProcesses>> RankProcesses::Start(
    std::shared_ptr<RankGroup> group, const std::string& program) {
  const int event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (event < 0) return absl::ErrnoToStatus(errno, "ranks as processes");
  std::unique_ptr<RankProcesses> processes(
      new RankProcesses(std::move(group), event));
  RankProcesses& p = *processes;
  p.thread_ = std::thread([&p, program] { p.Run(program); });
  absl::Status status;
  {
    MutexLock lock(p.mutex_);
    while (!p.start_) p.started_.Wait(p.mutex_);
    status = *p.start_;
  }
  if (!status.ok()) return status;
  return processes;
}

RankProcesses::~RankProcesses() {
  {
    MutexLock lock(mutex_);
    is_stopping_ = true;
  }
  Wake();
  thread_.join();
  close(event_);
}

void RankProcesses::Watch(OnLost on_lost) {
  {
    MutexLock lock(mutex_);
    on_lost_ = std::move(on_lost);
  }
  Wake();
}

void RankProcesses::Wake() {
  const uint64_t one = 1;
  BOLE_CHECK(write(event_, &one, sizeof(one)) == sizeof(one));
}

void RankProcesses::Run(const std::string& program) {
  absl::Status status;
  for (int rank = 1; rank < group_->num_ranks() && status.ok(); ++rank) {
    status = StartChild(program, rank);
  }
  if (!status.ok()) group_->End(0, status);
  {
    MutexLock lock(mutex_);
    start_ = status;
    started_.NotifyAll();
  }
  while (true) {
    AwaitEvent(std::chrono::milliseconds(-1));
    {
      MutexLock lock(mutex_);
      if (is_stopping_) break;
    }
    Reap(/*is_expected=*/false);
    TellIfLost();
  }
  EndChildren();
}

absl::Status RankProcesses::StartChild(const std::string& program, int rank) {
  const pid_t pid = SpawnSetup(group_->descriptor()).Spawn(program, rank);
  if (pid < 0) {
    return absl::ErrnoToStatus(
        errno, absl::StrCat("rank ", rank, " cannot be started as ", program));
  }
  // glibc 2.36 declares pidfd_open() without extern "C", so it cannot be
  // linked.
  const int descriptor = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (descriptor < 0) {
    absl::Status status = absl::ErrnoToStatus(
        errno, absl::StrCat("rank ", rank, " cannot be watched"));
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    return status;
  }
  children_.push_back({.rank = rank, .pid = pid, .descriptor = descriptor});
  return absl::OkStatus();
}

void RankProcesses::AwaitEvent(std::chrono::milliseconds limit) {
  std::vector<pollfd> descriptors = {
      {.fd = event_, .events = POLLIN, .revents = 0}};
  for (const Child& child : children_) {  // poll() skips those with -1.
    descriptors.push_back(
        {.fd = child.descriptor, .events = POLLIN, .revents = 0});
  }
  // An early return does no harm.
  poll(descriptors.data(), descriptors.size(), static_cast<int>(limit.count()));
  uint64_t count = 0;
  if (read(event_, &count, sizeof(count)) < 0) BOLE_CHECK(errno == EAGAIN);
}

int RankProcesses::Reap(bool is_expected) {
  int num_running = 0;
  for (Child& child : children_) {
    if (child.descriptor < 0) continue;
    siginfo_t info = {};
    const int failed = waitid(P_PIDFD, static_cast<id_t>(child.descriptor),
                              &info, WEXITED | WNOHANG);
    if (failed == 0 && info.si_pid == 0) {
      ++num_running;
      continue;
    }
    close(child.descriptor);
    child.descriptor = -1;
    if (is_expected) continue;
    group_->End(0, absl::UnavailableError(absl::StrCat(
                       "rank ", child.rank, " of ", group_->num_ranks(),
                       " (process ", child.pid, ") ", HowItEnded(info))));
    MutexLock lock(mutex_);
    is_lost_ = true;
  }
  return num_running;
}

void RankProcesses::TellIfLost() {
  MutexLock lock(mutex_);
  if (!is_lost_ || on_lost_ == nullptr) return;
  on_lost_(group_->failure());
  on_lost_ = nullptr;
}

void RankProcesses::EndChildren() {
  const auto end = steady_clock::now() + kTimeToEnd;
  int num_running = Reap(/*is_expected=*/true);
  while (num_running > 0 && steady_clock::now() < end) {
    AwaitEvent(std::chrono::ceil<std::chrono::milliseconds>(
        end - steady_clock::now()));
    num_running = Reap(/*is_expected=*/true);
  }
  for (const Child& child : children_) {
    if (child.descriptor >= 0) kill(child.pid, SIGKILL);
  }
  while (Reap(/*is_expected=*/true) > 0) {
    AwaitEvent(std::chrono::milliseconds(-1));
  }
}

}  // namespace bole
