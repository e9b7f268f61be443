// The Generate calls that are open, and the bounds on what they hold for
// clients that read slowly.
#ifndef BOLE_SCHEDULER_SERVICE_DOOR_OPEN_CALLS_H_
#define BOLE_SCHEDULER_SERVICE_DOOR_OPEN_CALLS_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <thread>
#include <unordered_map>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/mutex.h"
#include "scheduler_service/door/watched_call.h"

namespace bole {

struct OpenCallsLimits {
  // The output that all calls together may hold in memory.
  size_t max_held_bytes = size_t{1} << 30;
  // A message is stalled if the client has not taken it within this time and
  // one more second for each 64 KiB of it.
  std::chrono::milliseconds stalled_after{60000};
};

// Sums over all open calls at the last look.
struct OpenCallsLoad {
  size_t calls = 0;
  size_t undelivered_bytes = 0;
  size_t kept_bytes = 0;

  size_t held_bytes() const { return undelivered_bytes + kept_bytes; }
};

// A call that is to be ended, by its index.
struct ReaderVerdict {
  size_t call;
  ReaderFault fault;
};

// Returns the calls whose message is stalled. If the others together hold too
// much, also those with the most undelivered output, until the rest fits; if no
// reader is behind by more than 64 KiB, those that hold most.
// COST: O(n log n).
std::vector<ReaderVerdict> JudgeReaders(std::span<const HeldOutput> held,
                                        const OpenCallsLimits& limits,
                                        TimePoint now);

// Owns the calls from Add() to Remove(). A thread looks at all of them four
// times a second, or more often if `stalled_after` is short, and ends those
// that JudgeReaders() names. Between two looks the bound can be exceeded by
// what was generated since.
//
// Thread-safe. The lock is not held while a call is ended.
class OpenCalls {
 public:
  // `on_look`, if set, is called by the thread after every look.
  explicit OpenCalls(
      const OpenCallsLimits& limits,
      std::function<void(const OpenCallsLoad&)> on_look = nullptr);
  ~OpenCalls();

  OpenCalls(const OpenCalls&) = delete;
  OpenCalls& operator=(const OpenCalls&) = delete;

  void Add(std::shared_ptr<WatchedCall> call);
  // Returns the call, so that the caller chooses where it is destroyed.
  // REQUIRES: it was added.
  std::shared_ptr<WatchedCall> Remove(const WatchedCall& call);

  size_t size() const { return size_.load(); }
  // The sum at the last look.
  size_t held_bytes() const { return held_bytes_.load(); }
  size_t max_held_bytes() const { return limits_.max_held_bytes; }

  // Waits until all calls that are open now have ended, until `deadline`, or
  // until StopWaiting(). Returns whether all have.
  bool AwaitNone(TimePoint deadline);
  // AwaitNone() returns at once from now on.
  void StopWaiting();

 private:
  using Calls = std::vector<std::shared_ptr<WatchedCall>>;

  void Run();
  void Look();
  Calls All() const;

  const OpenCallsLimits limits_;
  const std::function<void(const OpenCallsLoad&)> on_look_;
  std::atomic<size_t> size_{0};
  std::atomic<size_t> held_bytes_{0};

  mutable Mutex mutex_;
  CondVar changed_;
  std::unordered_map<const WatchedCall*, std::shared_ptr<WatchedCall>> calls_
      ABSL_GUARDED_BY(mutex_);
  // How often the number of calls became 0. A waiter notices that even if
  // another call has been opened since.
  uint64_t times_empty_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stop_waiting_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // It uses the rest, so it comes last.
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_DOOR_OPEN_CALLS_H_
