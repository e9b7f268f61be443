#include "worker_service/ranks/ranked_model.h"

#include <cstddef>
#include <span>
#include <utility>

#include "common/status_macros.h"
#include "kernels/communicator.h"
#include "worker_service/loading/choose_backend.h"
#include "worker_service/ranks/host_communicator.h"
#include "worker_service/ranks/plan_codec.h"
#include "worker_service/ranks/round_digest.h"

namespace bole {

absl::StatusOr<std::unique_ptr<RankedModel>> RankedModel::Load(
    const RankedModelOptions& options) {
  RankedModelOptions resolved = options;
  if (options.num_ranks > 1) {
    BOLE_ASSIGN_OR_RETURN(resolved.device, ResolveDevice(options.device));
    if (IsGpu(resolved.device)) resolved.rank_kind = RankKind::kProcesses;
  }
  return LoadOn(MakeNamedBackend, resolved);
}

absl::StatusOr<std::unique_ptr<RankedModel>> RankedModel::LoadOn(
    const MakeBackend& make_backend, const RankedModelOptions& options) {
  std::unique_ptr<RankedModel> ranked(new RankedModel);
  absl::Status status = ranked->LoadParts(make_backend, options);
  if (status.ok()) return ranked;
  // The others must not wait for this rank.
  if (ranked->group_ != nullptr) ranked->group_->End(0, status);
  return status;
}

absl::Status RankedModel::LoadParts(const MakeBackend& make_backend,
                                    const RankedModelOptions& options) {
  std::unique_ptr<Communicator> ranks;
  if (options.num_ranks > 1) {
    BOLE_ASSIGN_OR_RETURN(group_, RankGroup::Create(options.num_ranks));
    plans_.emplace(group_);
    BOLE_RETURN_IF_ERROR(StartOthers(make_backend, options));
    BOLE_RETURN_IF_ERROR(plans_->Send(EncodeRankOptions(options)));
    ranks = MakeHostCommunicator(group_, 0);
  }
  BOLE_ASSIGN_OR_RETURN(part_,
                        LoadPart(make_backend, std::move(ranks), options));
  if (!plans_) return absl::OkStatus();
  // The deadline begins after loading, which may take much longer on one rank
  // than on another.
  BOLE_RETURN_IF_ERROR(plans_->AwaitDone());
  group_->SetDeadline(options.rank_deadline);
  return absl::OkStatus();
}

absl::Status RankedModel::StartOthers(const MakeBackend& make_backend,
                                      const RankedModelOptions& options) {
  if (options.rank_kind == RankKind::kProcesses) {
    BOLE_ASSIGN_OR_RETURN(processes_,
                          RankProcesses::Start(group_, options.rank_program));
    return absl::OkStatus();
  }
  for (int rank = 1; rank < options.num_ranks; ++rank) {
    threads_.emplace_back([group = group_, rank, make_backend] {
      // The error can be ignored here because the group has it.
      FollowFirstRank(group, rank, make_backend, [] {}).IgnoreError();
    });
  }
  return absl::OkStatus();
}

RankedModel::~RankedModel() {
  if (plans_) plans_->Close();
  for (std::thread& thread : threads_) thread.join();
  processes_.reset();
}

absl::Status RankedModel::Step(const StepPlan& plan, const OnRound& on_round) {
  if (!plans_) return part_->engine->StepValidated(plan, on_round);
  const std::string message = SerializePlan(plan);
  BOLE_RETURN_IF_ERROR(plans_->Send(std::as_bytes(std::span(message))));
  absl::Status agreed;
  absl::Status run = part_->engine->StepValidated(plan, [&](StepResult result) {
    if (agreed.ok()) {
      agreed = plans_->Compare(result.round, DigestOf(result));
    }
    if (agreed.ok()) on_round(std::move(result));
  });
  // If ranks differ, that ends the group and makes the engine fail too; the
  // difference is the error to return.
  return agreed.ok() ? run : agreed;
}

void RankedModel::WatchRanks(RankProcesses::OnLost on_lost) {
  if (processes_ != nullptr) processes_->Watch(std::move(on_lost));
}

}  // namespace bole
