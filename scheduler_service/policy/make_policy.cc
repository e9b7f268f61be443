#include "scheduler_service/policy/make_policy.h"

#include <utility>

#include "scheduler_service/policy/adaserve_policy.h"
#include "scheduler_service/policy/calibrated_worker.h"
#include "scheduler_service/policy/cost_model.h"
#include "scheduler_service/policy/epsilon_policy.h"
#include "scheduler_service/policy/fixed_policy.h"
#include "scheduler_service/policy/speculation.h"
#include "scheduler_service/policy/table_watch.h"

namespace bole {
namespace {

std::unique_ptr<RoundPolicy> MakeFixed(const PolicyOptions& options,
                                       const WorkerDescription& worker,
                                       const char* fallback) {
  Speculation speculation = options.speculation;
  if (options.kind == PolicyKind::kOff) {
    speculation.mode = SpeculationMode::kOff;
  }
  const OffReason if_off = speculation.mode == SpeculationMode::kOff
                               ? OffReason::kAsked
                               : OffReason::kNoDrafter;
  return std::make_unique<FixedPolicy>(
      BoundsFor(speculation, worker.limits, worker.has_drafter),
      options.lease_rounds, if_off, fallback);
}

}  // namespace

std::unique_ptr<RoundPolicy> MakePolicy(const PolicyOptions& options,
                                        const WorkerDescription& worker,
                                        std::shared_ptr<DraftHistory> history) {
  const bool is_fixed =
      options.kind == PolicyKind::kOff || options.kind == PolicyKind::kFixed ||
      options.speculation.mode == SpeculationMode::kOff || !worker.has_drafter;
  if (is_fixed) return MakeFixed(options, worker, "");
  if (worker.costs == nullptr) return MakeFixed(options, worker, "no_table");
  CalibratedWorker calibrated{
      .limits = worker.limits,
      .costs = CostModel(worker.costs, worker.row_buckets),
      .can_defer = worker.protocol_version >= kDeferralProtocolVersion};
  std::unique_ptr<RoundPolicy> policy;
  if (options.kind == PolicyKind::kEpsilon) {
    policy = std::make_unique<EpsilonPolicy>(options, std::move(calibrated));
  } else if (options.kind == PolicyKind::kAdaServe) {
    policy = std::make_unique<AdaServePolicy>(options, std::move(calibrated));
  } else {
    policy = std::make_unique<GoodputPolicy>(options, std::move(calibrated),
                                             std::move(history));
  }
  return std::make_unique<TableWatch>(
      std::move(policy), CostModel(worker.costs, worker.row_buckets));
}

}  // namespace bole
