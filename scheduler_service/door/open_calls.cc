#include "scheduler_service/door/open_calls.h"

#include <algorithm>
#include <utility>

#include "common/check.h"

namespace bole {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr size_t kSlowestBytesPerSecond = 64 << 10;

// A reader with less undelivered output than this is not behind: its messages
// are in transit.
constexpr size_t kBehindBytes = 64 << 10;

milliseconds Period(const OpenCallsLimits& limits) {
  return std::clamp(limits.stalled_after / 4, milliseconds(10),
                    milliseconds(250));
}

bool IsStalled(const HeldOutput& held, milliseconds stalled_after,
               TimePoint now) {
  if (!held.write) return false;
  const milliseconds extra(1000 * held.write->bytes / kSlowestBytesPerSecond);
  return now - held.write->started >= stalled_after + extra;
}

// The call of the highest rank is ended first to make room.
std::pair<size_t, size_t> Rank(const HeldOutput& held) {
  const size_t undelivered = held.undelivered();
  return {undelivered > kBehindBytes ? undelivered : 0, held.total()};
}

}  // namespace

std::vector<ReaderVerdict> JudgeReaders(std::span<const HeldOutput> held,
                                        const OpenCallsLimits& limits,
                                        TimePoint now) {
  std::vector<ReaderVerdict> verdicts;
  std::vector<size_t> rest;
  size_t total = 0;
  for (size_t i = 0; i < held.size(); ++i) {
    if (IsStalled(held[i], limits.stalled_after, now)) {
      verdicts.push_back({.call = i, .fault = ReaderFault::kStalled});
    } else {
      rest.push_back(i);
      total += held[i].total();
    }
  }
  if (total <= limits.max_held_bytes) return verdicts;
  std::sort(rest.begin(), rest.end(),
            [&](size_t a, size_t b) { return Rank(held[a]) > Rank(held[b]); });
  for (const size_t i : rest) {
    if (total <= limits.max_held_bytes) break;
    verdicts.push_back({.call = i, .fault = ReaderFault::kDoorFull});
    total -= held[i].total();
  }
  return verdicts;
}

OpenCalls::OpenCalls(const OpenCallsLimits& limits,
                     std::function<void(const OpenCallsLoad&)> on_look)
    : limits_(limits),
      on_look_(std::move(on_look)),
      thread_([this] { Run(); }) {}

OpenCalls::~OpenCalls() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

void OpenCalls::Add(std::shared_ptr<WatchedCall> call) {
  const WatchedCall* key = call.get();
  MutexLock lock(mutex_);
  calls_.emplace(key, std::move(call));
  size_.store(calls_.size());
}

std::shared_ptr<WatchedCall> OpenCalls::Remove(const WatchedCall& call) {
  MutexLock lock(mutex_);
  const auto found = calls_.find(&call);
  BOLE_CHECK(found != calls_.end());
  std::shared_ptr<WatchedCall> removed = std::move(found->second);
  calls_.erase(found);
  size_.store(calls_.size());
  if (calls_.empty()) {
    ++times_empty_;
    changed_.NotifyAll();
  }
  return removed;
}

bool OpenCalls::AwaitNone(TimePoint deadline) {
  MutexLock lock(mutex_);
  if (calls_.empty()) return true;
  const uint64_t before = times_empty_;
  while (times_empty_ == before && !stop_waiting_) {
    if (!changed_.WaitUntil(mutex_, deadline)) break;
  }
  return times_empty_ != before;
}

void OpenCalls::StopWaiting() {
  MutexLock lock(mutex_);
  stop_waiting_ = true;
  changed_.NotifyAll();
}

OpenCalls::Calls OpenCalls::All() const {
  Calls all;
  MutexLock lock(mutex_);
  all.reserve(calls_.size());
  for (const auto& [key, call] : calls_) all.push_back(call);
  return all;
}

void OpenCalls::Look() {
  const Calls calls = All();
  OpenCallsLoad load{.calls = calls.size()};
  std::vector<HeldOutput> held;
  held.reserve(calls.size());
  for (const std::shared_ptr<WatchedCall>& call : calls) {
    held.push_back(call->held());
    load.undelivered_bytes += held.back().undelivered();
    load.kept_bytes += held.back().kept;
  }
  for (const ReaderVerdict& verdict :
       JudgeReaders(held, limits_, steady_clock::now())) {
    calls[verdict.call]->EndForReader(verdict.fault);
    load.undelivered_bytes -= held[verdict.call].undelivered();
    load.kept_bytes -= held[verdict.call].kept;
  }
  held_bytes_.store(load.held_bytes());
  if (on_look_) on_look_(load);
}

void OpenCalls::Run() {
  TimePoint next = steady_clock::now();
  while (true) {
    {
      MutexLock lock(mutex_);
      while (!stopping_ && changed_.WaitUntil(mutex_, next)) continue;
      if (stopping_) return;
    }
    Look();
    next = steady_clock::now() + Period(limits_);
  }
}

}  // namespace bole
