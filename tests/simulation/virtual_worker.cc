#include "tests/simulation/virtual_worker.h"

#include <cstddef>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/cost_table.h"
#include "proto/protocol_version.h"

namespace bole::simulation {

using std::chrono::nanoseconds;

VirtualWorker::VirtualWorker(VirtualWorkerOptions options, VirtualWorld world)
    : options_(std::move(options)), world_(std::move(world)) {}

void VirtualWorker::Join() {
  joins_ = true;
  if (!connected()) Connect();
}

void VirtualWorker::Connect() {
  ++epoch_;
  plan_number_ = 0;
  busy_ = false;
  engine_ = std::make_unique<SimulatedEngine>(options_.engine);
  std::shared_ptr<CostTable> costs;
  if (options_.is_calibrated) {
    costs = std::make_shared<CostTable>();
    costs->costs = options_.costs;
  }
  world_.tell(WorkerConnected{
      .epoch = epoch_,
      .description = {
          .model = options_.model,
          .device = "none",
          .version = "",
          .protocol_version = options_.is_calibrated ? kProtocolVersion : 0u,
          .limits = options_.engine.limits,
          .has_drafter = engine_->has_drafter(),
          .stop_tokens = {},
          .slot_bytes = options_.engine.slot_bytes,
          .page_bytes = options_.engine.page_bytes,
          .costs = std::move(costs)}});
}

void VirtualWorker::Drain() {
  if (connected()) world_.tell(WorkerDraining{epoch_});
}

void VirtualWorker::Lose(const absl::Status& why) {
  engine_ = nullptr;
  world_.tell(WorkerLost{epoch_, why});
  world_.after(options_.restart, [this, epoch = epoch_] {
    if (joins_ && !connected() && epoch == epoch_) Connect();
  });
}

void VirtualWorker::Close(uint64_t epoch) {
  if (!connected() || epoch != epoch_) return;
  Lose(absl::UnavailableError("it left"));
}

void VirtualWorker::Disconnect(uint64_t epoch, const absl::Status& why) {
  if (!connected() || epoch != epoch_) return;
  Lose(why);
}

void VirtualWorker::Send(uint64_t epoch, uint64_t plan_number,
                         const StepPlan& plan, const PlanTrace& /*trace*/) {
  if (!connected() || epoch != epoch_) return;
  if (busy_) Blame("a plan came while another one ran");
  if (plan_number != ++plan_number_) {
    Blame(absl::StrCat("plan ", plan_number, " came, not ", plan_number_));
  }
  const absl::Status valid = Validate(plan, options_.engine.limits);
  if (!valid.ok()) return Blame(valid.ToString());
  busy_ = true;
  plan_ = plan;
  round_ = 0;
  StartRound();
}

void VirtualWorker::StartRound() {
  const RoundFaults faults = FaultsOf(options_.faults, ++num_rounds_);
  const auto count = [this](FaultKind kind, bool happens) {
    num_faults_[static_cast<size_t>(kind)] += happens ? 1 : 0;
  };
  count(FaultKind::kCrash, faults.crash);
  count(FaultKind::kHang, faults.hang);
  count(FaultKind::kSlow, faults.slowness > 1);
  count(FaultKind::kGarbage, faults.garbage.has_value());
  if (faults.hang) return;
  round_time_ = std::chrono::duration_cast<nanoseconds>(
      options_.costs.TimeOf(plan_) * (faults.slowness / options_.speed));
  After(round_time_, [this, faults] { EndRound(faults); });
}

void VirtualWorker::EndRound(const RoundFaults& faults) {
  if (faults.crash) return Lose(absl::UnavailableError("it crashed"));
  StepResult result = engine_->RunRound(plan_);
  if (engine_->num_problems() > 0) Blame(engine_->last_problem());
  const bool more = engine_->FinishRound(round_++, plan_, result);
  Spoil(faults, options_.engine.limits, result);
  const bool wrong_number = faults.garbage == Garbage::kNumber;
  busy_ = more;
  world_.tell(WorkerOutcome{
      .epoch = epoch_,
      .plan_number = plan_number_ + (wrong_number ? 1 + faults.bits % 1000 : 0),
      .result = std::move(result),
      .step_seconds = std::chrono::duration<double>(round_time_).count()});
  if (more) StartRound();
}

void VirtualWorker::Blame(const std::string& problem) {
  ++num_problems_;
  last_problem_ = problem;
}

void VirtualWorker::After(nanoseconds delay, std::function<void()> action) {
  world_.after(delay, [this, epoch = epoch_, action = std::move(action)] {
    if (connected() && epoch == epoch_) action();
  });
}

}  // namespace bole::simulation
