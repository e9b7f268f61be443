#include "clients/bench/schedule.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "common/check.h"

namespace bole::bench {

Schedule::Schedule(const Workload& workload, ScheduleOptions options)
    : workload_(workload), options_(std::move(options)) {
  BOLE_CHECK(!workload_.sessions.empty());
  for (size_t i = 0; i < options_.arrivals.size(); ++i) {
    const double arrival = options_.arrivals[i];
    if (arrival >= options_.end) break;
    due_.push({.instance = static_cast<int>(i),
               .scheduled = arrival,
               .due = arrival});
  }
  for (int i = 0; i < options_.concurrency; ++i) {
    BeginNext(options_.ramp_seconds * i / options_.concurrency);
  }
}

const Session& Schedule::SessionOf(int instance) const {
  return workload_
      .sessions[static_cast<size_t>(instance) % workload_.sessions.size()];
}

void Schedule::BeginNext(double now) {
  if (stopped_ || now >= options_.end) return;
  if (next_instance_ == options_.num_instances) return;
  due_.push({.instance = next_instance_++, .scheduled = now, .due = now});
}

std::vector<ScheduledTurn> Schedule::Take(double now) {
  std::vector<ScheduledTurn> turns;
  while (!due_.empty() && due_.top().due <= now &&
         in_flight_ < options_.max_in_flight) {
    turns.push_back(due_.top());
    due_.pop();
    ++in_flight_;
  }
  return turns;
}

std::optional<double> Schedule::NextDue() const {
  if (due_.empty() || in_flight_ >= options_.max_in_flight) {
    return std::nullopt;
  }
  return due_.top().due;
}

void Schedule::Ended(const ScheduledTurn& turn, double now, bool succeeded) {
  --in_flight_;
  const std::vector<Turn>& turns = SessionOf(turn.instance).turns;
  const size_t next = static_cast<size_t>(turn.turn) + 1;
  if (next < turns.size() && succeeded && !stopped_) {
    const std::optional<double> think = turns[next].think_seconds;
    const double at =
        now + (think ? *think * options_.think_scale : options_.think_seconds);
    due_.push({.instance = turn.instance,
               .turn = turn.turn + 1,
               .scheduled = at,
               .due = at});
    return;
  }
  num_dropped_ += static_cast<int>(turns.size() - next);
  if (options_.concurrency > 0) BeginNext(now);
}

void Schedule::Retry(ScheduledTurn turn, double now, double delay) {
  --in_flight_;
  ++turn.attempt;
  turn.due = now + delay;
  due_.push(turn);
}

void Schedule::Stop() {
  stopped_ = true;
  while (!due_.empty()) {
    const ScheduledTurn& turn = due_.top();
    const bool began = turn.turn > 0 || turn.attempt > 0;
    if (began) {
      num_dropped_ +=
          static_cast<int>(SessionOf(turn.instance).turns.size()) - turn.turn;
    }
    due_.pop();
  }
}

}  // namespace bole::bench
