// One queue for workers of different speeds, as an ideal to compare with.
#ifndef BOLE_TESTS_SCHEDULER_SERVICE_TRAFFIC_SHARED_QUEUE_H_
#define BOLE_TESTS_SCHEDULER_SERVICE_TRAFFIC_SHARED_QUEUE_H_

#include <vector>

#include "tests/scheduler_service/traffic/traffic.h"

namespace bole::testing {

struct SharedQueueResult {
  std::vector<double> ttfts;  // Seconds, of each arrival.
  std::vector<double> ends;   // Seconds since the start, ascending.
};

// Requests wait in one queue, in the order of their arrival. Whenever a round
// of a PlainWorker() ends, that worker takes as many of the queue as it has
// places, whatever the other ones do; when several are free, the fastest does.
// Rounds take the times of PlainCosts() over `speeds`, prefill is cut into
// chunks as the scheduler's planner does, and while nobody waits a worker that
// prefills nothing runs `lease_rounds` at once.
//
// Shares no code with the scheduler.
SharedQueueResult RunSharedQueue(const std::vector<Arrival>& arrivals,
                                 const std::vector<double>& speeds,
                                 int lease_rounds);

}  // namespace bole::testing

#endif  // BOLE_TESTS_SCHEDULER_SERVICE_TRAFFIC_SHARED_QUEUE_H_
