// Decides which request of a load is due when, without clock or network.
#ifndef BOLE_CLIENTS_BENCH_SCHEDULE_H_
#define BOLE_CLIENTS_BENCH_SCHEDULE_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <queue>
#include <vector>

#include "clients/bench/workload.h"

namespace bole::bench {

// A request, by its place in the load. Instance i is a run of session
// i mod (number of sessions).
struct ScheduledTurn {
  int instance = 0;
  int turn = 0;
  int attempt = 0;       // 0, and one more for each retry.
  double scheduled = 0;  // Arrival: latencies count from here.
  double due = 0;        // scheduled, or later for a retry.
};

struct ScheduleOptions {
  // Open loop: when instances arrive, ascending.
  std::vector<double> arrivals = {};
  // Closed loop, if > 0: the number of instances at any moment. When one ends,
  // the next one begins.
  int concurrency = 0;
  int num_instances = 0;    // Closed loop: their maximum.
  double ramp_seconds = 0;  // Closed loop: the first ones begin over this time.
  // No instance begins at or after this time.
  double end = std::numeric_limits<double>::infinity();
  // The most requests in flight; others wait even if they are due.
  int max_in_flight = std::numeric_limits<int>::max();
  // The think time where the file names none.
  double think_seconds = 0;
  // Factor on the think times that the file names.
  double think_scale = 1;
};

// Times are seconds since the start of the run. Not thread-safe.
//
// COST: O(log n) for each request, n being those that are due later.
class Schedule {
 public:
  // `workload` outlives this.
  Schedule(const Workload& workload, ScheduleOptions options);

  // The requests to send now, by their due times. They are in flight until
  // Ended() or Retry().
  std::vector<ScheduledTurn> Take(double now);

  // When Take() will next return a request, if none ends before then. Absent:
  // not until a request ends.
  std::optional<double> NextDue() const;

  // A request that Take() returned has ended. The session continues after its
  // think time; if the request failed, the session ends, because its history is
  // not known.
  void Ended(const ScheduledTurn& turn, double now, bool succeeded);

  // A request that Take() returned was refused; it is sent again `delay`
  // seconds from now.
  // REQUIRES: Stop() was not called.
  void Retry(ScheduledTurn turn, double now, double delay);

  // Nothing more is sent; requests in flight continue.
  void Stop();

  bool done() const { return due_.empty() && in_flight_ == 0; }
  int in_flight() const { return in_flight_; }
  // Turns that were not sent although their sessions had begun, because an
  // earlier turn failed or Stop() was called.
  int num_dropped() const { return num_dropped_; }

 private:
  struct Later {
    bool operator()(const ScheduledTurn& a, const ScheduledTurn& b) const {
      return a.due > b.due;
    }
  };

  const Session& SessionOf(int instance) const;
  // Begins the next instance of a closed loop.
  void BeginNext(double now);

  const Workload& workload_;
  const ScheduleOptions options_;
  std::priority_queue<ScheduledTurn, std::vector<ScheduledTurn>, Later> due_;
  int next_instance_ = 0;  // Closed loop.
  int in_flight_ = 0;
  int num_dropped_ = 0;
  bool stopped_ = false;
};

}  // namespace bole::bench

#endif  // BOLE_CLIENTS_BENCH_SCHEDULE_H_
