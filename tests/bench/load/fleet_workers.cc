#include "tests/bench/load/fleet_workers.h"

#include <ctime>
#include <utility>
#include <variant>

#include "absl/status/statusor.h"
#include "common/check.h"
#include "common/step.h"
#include "proto/step_codec.h"

namespace bole {
namespace {

using std::chrono::nanoseconds;
using std::chrono::steady_clock;

nanoseconds CpuOfThisThread() {
  timespec time{};
  BOLE_CHECK(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time) == 0);
  return std::chrono::seconds(time.tv_sec) + nanoseconds(time.tv_nsec);
}

}  // namespace

LoopTimes::LoopTimes(size_t expected) {
  cpu_.Reserve(expected);
  wall_.Reserve(expected);
}

void LoopTimes::PlanSent(nanoseconds since_result) {
  ++plans_;
  wall_.Add(std::chrono::duration<double, std::micro>(since_result).count());
}

void LoopTimes::TurnEnded() {
  if (plans_ == 0) return;
  const int plans = std::exchange(plans_, 0);
  const nanoseconds cpu = CpuOfThisThread();
  const nanoseconds taken = cpu - std::exchange(last_cpu_, cpu);
  ++turns_;
  cpu_seconds_ += std::chrono::duration<double>(taken).count();
  const double each =
      std::chrono::duration<double, std::micro>(taken).count() / plans;
  for (int i = 0; i < plans; ++i) cpu_.Add(each);
  if (!restart_.exchange(false)) return;
  cpu_.Clear();
  wall_.Clear();
  cpu_seconds_ = 0;
  turns_ = 0;
}

double LoopTimes::plans_per_turn() const {
  return static_cast<double>(cpu_.size()) / static_cast<double>(turns_);
}

FleetWorker::FleetWorker(simulation::VirtualWorkerOptions options,
                         EventThread& thread, LoopTimes& times,
                         std::function<void(WorkerNews)> post)
    : thread_(thread),
      times_(times),
      post_(std::move(post)),
      worker_(std::move(options),
              {.after =
                   [this](nanoseconds delay, std::function<void()> action) {
                     thread_.After(delay, std::move(action));
                   },
               .tell = [this](WorkerNews news) { Tell(std::move(news)); }}) {}

void FleetWorker::JoinAfter(nanoseconds delay) {
  thread_.After(delay, [this] { worker_.Join(); });
}

void FleetWorker::Tell(WorkerNews news) {
  if (std::holds_alternative<WorkerOutcome>(news)) {
    result_at_ = steady_clock::now();
  }
  post_(std::move(news));
}

void FleetWorker::Send(uint64_t epoch, uint64_t plan_number,
                       const StepPlan& plan, const PlanTrace& trace) {
  auto message = std::make_shared<std::string>();
  worker::v1::StepPlan encoded;
  EncodePlan(plan, encoded);
  BOLE_CHECK(encoded.SerializeToString(message.get()));
  thread_.After(nanoseconds(0), [this, epoch, plan_number, message, trace] {
    worker::v1::StepPlan read;
    BOLE_CHECK(read.ParseFromString(*message));
    const absl::StatusOr<StepPlan> decoded = DecodePlan(read);
    BOLE_CHECK(decoded.ok());
    worker_.Send(epoch, plan_number, *decoded, trace);
  });
  times_.PlanSent(steady_clock::now() - result_at_.load());
}

void FleetWorker::Close(uint64_t epoch) {
  thread_.After(nanoseconds(0), [this, epoch] { worker_.Close(epoch); });
}

void FleetWorker::Disconnect(uint64_t epoch, const absl::Status& why) {
  thread_.After(nanoseconds(0),
                [this, epoch, why] { worker_.Disconnect(epoch, why); });
}

}  // namespace bole
