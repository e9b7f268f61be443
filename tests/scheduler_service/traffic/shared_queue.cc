#include "tests/scheduler_service/traffic/shared_queue.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <deque>
#include <limits>

#include "common/step.h"
#include "common/step_costs.h"

namespace bole::testing {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

struct Running {
  size_t arrival;
  int prefill_left;
  int output_left;
  int committed = 0;
  int chunk = 0;  // In the current round; 0: the job decodes, or waits.
};

struct Worker {
  double speed;
  std::vector<Running> running;
  int rounds = 1;              // Rounds in the current lease.
  double round_ends = kNever;  // When the last of them ends.
};

class SharedQueue {
 public:
  SharedQueue(const std::vector<Arrival>& arrivals,
              const std::vector<double>& speeds, int lease_rounds)
      : arrivals_(arrivals), lease_rounds_(lease_rounds) {
    for (const double speed : speeds) {
      workers_.push_back({.speed = speed, .running = {}});
    }
    std::sort(
        workers_.begin(), workers_.end(),
        [](const Worker& a, const Worker& b) { return a.speed > b.speed; });
    result_.ttfts.resize(arrivals.size());
  }

  SharedQueueResult Run() {
    size_t next = 0;
    while (result_.ends.size() < arrivals_.size()) {
      now_ = next < arrivals_.size() ? arrivals_[next].seconds : kNever;
      for (const Worker& worker : workers_) {
        now_ = std::min(now_, worker.round_ends);
      }
      for (; next < arrivals_.size() && arrivals_[next].seconds <= now_;
           ++next) {
        waiting_.push_back(next);
      }
      for (Worker& worker : workers_) {
        if (worker.round_ends <= now_) EndRound(worker);
      }
      for (Worker& worker : workers_) {
        if (worker.round_ends == kNever) StartRound(worker);
      }
    }
    return std::move(result_);
  }

 private:
  void EndRound(Worker& worker) {
    for (Running& job : worker.running) {
      if (job.prefill_left > 0) {
        job.prefill_left -= job.chunk;
        job.committed += job.chunk;
        if (job.prefill_left > 0) continue;
        result_.ttfts[job.arrival] = now_ - arrivals_[job.arrival].seconds;
        --job.output_left;
      } else {
        const int tokens = std::min(worker.rounds, job.output_left);
        job.output_left -= tokens;
        job.committed += tokens;
      }
      if (job.output_left == 0) result_.ends.push_back(now_);
    }
    std::erase_if(worker.running,
                  [](const Running& job) { return job.output_left == 0; });
    worker.round_ends = kNever;
  }

  void StartRound(Worker& worker) {
    while (!waiting_.empty() && worker.running.size() < kPlainRequests) {
      const Arrival& arrival = arrivals_[waiting_.front()];
      worker.running.push_back({.arrival = waiting_.front(),
                                .prefill_left = arrival.prompt_tokens,
                                .output_left = arrival.output_tokens});
      waiting_.pop_front();
    }
    if (worker.running.empty()) return;
    const bool prefills = PlanChunks(worker);
    worker.rounds = waiting_.empty() && !prefills ? lease_rounds_ : 1;
    double seconds = 0;
    for (int round = 0; round < worker.rounds; ++round) {
      seconds += RoundSeconds(worker, round);
    }
    worker.round_ends = now_ + seconds;
  }

  static bool PlanChunks(Worker& worker) {
    int room = kPlainPrefillTokens;
    bool any = false;
    for (Running& job : worker.running) {
      job.chunk = job.prefill_left;
      if (job.chunk > room) {
        const int end = (job.committed + room) / kPrefillGrid * kPrefillGrid;
        job.chunk = std::max(end - job.committed, 0);
      }
      room -= job.chunk;
      any = any || job.chunk > 0;
    }
    return any;
  }

  // The duration of a lease's round, counted from 0. It is 0 if all requests
  // have ended before the round.
  double RoundSeconds(const Worker& worker, int round) const {
    RoundQuantities quantities{};
    const auto add = [&](Quantity quantity, double value) {
      quantities[static_cast<size_t>(quantity)] += value;
    };
    for (const Running& job : worker.running) {
      add(Quantity::kPrefillTokens, job.chunk);
      if (job.prefill_left == 0 && job.output_left > round) {
        add(Quantity::kRows, 1);
      }
    }
    return std::chrono::duration<double>(costs_.TimeOf(quantities)).count() /
           worker.speed;
  }

  const std::vector<Arrival>& arrivals_;
  const int lease_rounds_;
  const StepCosts costs_ = PlainCosts();
  double now_ = 0;
  std::deque<size_t> waiting_;
  std::vector<Worker> workers_;  // Sorted, the fastest first.
  SharedQueueResult result_;
};

}  // namespace

SharedQueueResult RunSharedQueue(const std::vector<Arrival>& arrivals,
                                 const std::vector<double>& speeds,
                                 int lease_rounds) {
  return SharedQueue(arrivals, speeds, lease_rounds).Run();
}

}  // namespace bole::testing
