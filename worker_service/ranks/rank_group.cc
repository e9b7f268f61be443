#include "worker_service/ranks/rank_group.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <limits>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/check.h"
#include "worker_service/ranks/group_memory.h"

namespace bole {
namespace {

using std::chrono::steady_clock;

// A limit is waited for in this many parts. If all processes of a terminal are
// stopped together, at most one part can pass meanwhile, and not the whole
// limit.
constexpr int kParts = 8;

// Returns when `word` is not `seen`, when its waiters are woken, at `until`, or
// spuriously; false if `until` has passed. The futex is not private, because
// other processes wait on the same word.
bool WaitWhile(std::atomic<uint32_t>& word, uint32_t seen,
               std::optional<steady_clock::time_point> until) {
  timespec time = {};
  if (until) {
    const auto since = until->time_since_epoch();  // On CLOCK_MONOTONIC.
    const auto seconds =
        std::chrono::duration_cast<std::chrono::seconds>(since);
    time.tv_sec = seconds.count();
    time.tv_nsec = std::chrono::nanoseconds(since - seconds).count();
  }
  const auto failed =
      syscall(SYS_futex, &word, FUTEX_WAIT_BITSET, seen,
              until ? &time : nullptr, nullptr, FUTEX_BITSET_MATCH_ANY);
  return failed == 0 || errno != ETIMEDOUT;
}

absl::Status NoMemory() {
  return absl::ErrnoToStatus(errno, "memory that ranks share");
}

absl::Status NoGroup(int descriptor) {
  return absl::InvalidArgumentError(absl::StrCat(
      "descriptor ", descriptor, " is not the memory of a group of ranks"));
}

// The memory of a file, or null.
GroupMemory* Map(int descriptor) {
  void* const address = mmap(nullptr, sizeof(GroupMemory),
                             PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  return address == MAP_FAILED ? nullptr : static_cast<GroupMemory*>(address);
}

class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  ~File() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  int get() const { return descriptor_; }
  int Release() { return std::exchange(descriptor_, -1); }

 private:
  int descriptor_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<RankGroup>> RankGroup::Create(int num_ranks) {
  BOLE_CHECK(num_ranks >= 1 && num_ranks <= kMaxRanks);
  File file(memfd_create("bole-ranks", MFD_CLOEXEC));
  if (file.get() < 0 || ftruncate(file.get(), sizeof(GroupMemory)) != 0) {
    return NoMemory();
  }
  GroupMemory* memory = Map(file.get());
  if (memory == nullptr) return NoMemory();
  // The memory is already zero, and most of it is not touched here.
  memory = new (memory) GroupMemory;
  memory->num_ranks = num_ranks;
  memory->owner = getpid();
  memory->deadline_ms = -1;
  memory->magic = GroupMemory::kMagic;
  return std::shared_ptr<RankGroup>(new RankGroup(file.Release(), memory));
}

absl::StatusOr<std::shared_ptr<RankGroup>> RankGroup::Join(int descriptor) {
  struct stat found = {};
  if (fstat(descriptor, &found) != 0 || found.st_size != sizeof(GroupMemory)) {
    return NoGroup(descriptor);
  }
  File file(fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
  if (file.get() < 0) return NoMemory();
  GroupMemory* const memory = Map(file.get());
  if (memory == nullptr) return NoMemory();
  std::shared_ptr<RankGroup> group(new RankGroup(file.Release(), memory));
  if (memory->magic != GroupMemory::kMagic) return NoGroup(descriptor);
  return group;
}

RankGroup::~RankGroup() {
  munmap(memory_, sizeof(GroupMemory));
  close(descriptor_);
}

int RankGroup::num_ranks() const { return memory_->num_ranks; }

pid_t RankGroup::owner() const { return memory_->owner; }

void RankGroup::SetDeadline(Deadline deadline) {
  memory_->deadline_ms = deadline ? deadline->count() : -1;
}

RankGroup::Deadline RankGroup::deadline() const {
  const int64_t ms = memory_->deadline_ms;
  if (ms < 0) return std::nullopt;
  return std::chrono::milliseconds(ms);
}

void RankGroup::End(int speaker, const absl::Status& why) {
  BOLE_CHECK(!why.ok() && speaker >= 0 && speaker < kMaxRanks);
  {
    MutexLock lock(end_mutex_);
    if (memory_->failure != 0) return;
    auto& reason = memory_->reasons[static_cast<size_t>(speaker)];
    const absl::string_view text = why.message().substr(0, reason.size() - 1);
    *std::copy(text.begin(), text.end(), reason.begin()) = '\0';
    // If another process was faster, its reason counts.
    uint32_t none = 0;
    memory_->failure.compare_exchange_strong(
        none, static_cast<uint32_t>(1 + speaker) +
                  (static_cast<uint32_t>(why.code()) << 8));
  }
  Wake();
}

void RankGroup::Leave(int rank, const absl::Status& why) {
  End(rank,
      absl::UnavailableError(absl::StrCat("rank ", rank, " of ", num_ranks(),
                                          " has left: ", why.message())));
}

absl::Status RankGroup::failure() const {
  const uint32_t failure = memory_->failure;
  if (failure == 0) return absl::OkStatus();
  return {static_cast<absl::StatusCode>(failure >> 8),
          memory_->reasons[(failure & 255) - 1].data()};
}

RankGroup::Wait RankGroup::Await(const std::function<bool()>& is_done,
                                 Deadline limit) const {
  const auto part = [limit]() -> std::optional<steady_clock::time_point> {
    if (!limit) return std::nullopt;
    return steady_clock::now() + *limit / kParts;
  };
  std::optional<steady_clock::time_point> until = part();
  int num_passed = 0;
  while (true) {
    const uint32_t seen = memory_->event;
    if (is_done()) return Wait::kDone;
    if (memory_->failure != 0) return Wait::kEnded;
    if (num_passed == kParts) return Wait::kLate;
    if (WaitWhile(memory_->event, seen, until)) continue;
    ++num_passed;
    until = part();
  }
}

void RankGroup::Wake() {
  ++memory_->event;
  syscall(SYS_futex, &memory_->event, FUTEX_WAKE,
          std::numeric_limits<int>::max(), nullptr, nullptr, 0);
}

}  // namespace bole
