#include "worker_service/ranks/ranked_model.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/status_macros.h"
#include "kernels/communicator.h"
#include "kernels/reference/reference_backend.h"
#include "worker_service/choose_backend.h"
#include "worker_service/default_threads.h"
#include "worker_service/model/mapped_file.h"
#include "worker_service/ranks/host_communicator.h"
#include "worker_service/ranks/round_agreement.h"

namespace bole {
namespace {

absl::StatusOr<std::vector<std::unique_ptr<Backend>>> ChooseBackends(
    const RankedModelOptions& options) {
  const int num_threads = ThreadsOrDefault(options.num_threads);
  BOLE_ASSIGN_OR_RETURN(std::unique_ptr<Backend> only,
                        ChooseBackend(options.device, num_threads));
  std::vector<std::unique_ptr<Backend>> backends;
  if (options.num_ranks == 1) {
    backends.push_back(std::move(only));
    return backends;
  }
  if (only->memory()) {
    return absl::UnimplementedError(
        absl::StrCat(options.num_ranks, " ranks on ", only->description(),
                     ": only a CPU has more than one"));
  }
  for (std::unique_ptr<Communicator>& rank :
       MakeHostCommunicators(options.num_ranks, options.rank_deadline)) {
    backends.push_back(std::make_unique<ReferenceBackend>(
        std::max(1, num_threads / options.num_ranks), std::move(rank)));
  }
  return backends;
}

// The error of a rank other than the first, with which users speak of all.
absl::Status Named(int rank, const absl::Status& status) {
  return status.ok() || rank == 0
             ? status
             : Annotate(status, absl::StrCat("rank ", rank));
}

// Tells how far it is every few seconds, and what was done.
absl::Status WarmUp(std::chrono::seconds limit, Engine& engine) {
  using Clock = std::chrono::steady_clock;
  if (limit == limit.zero() || engine.num_graphs() == 0) {
    return absl::OkStatus();
  }
  constexpr std::chrono::seconds kBetweenReports(2);
  const Clock::time_point begin = Clock::now();
  Clock::time_point next_report = begin + kBetweenReports;
  int num_done = 0;
  int num_all = 0;
  const auto report = [&](const char* end) {
    std::printf("warming up: %d of %d kinds of rounds captured%s\n", num_done,
                num_all, end);
    std::fflush(stdout);
  };
  BOLE_RETURN_IF_ERROR(engine.WarmUp(begin + limit, [&](int done, int all) {
    num_done = done;
    num_all = all;
    if (done == all || Clock::now() < next_report) return;
    next_report = Clock::now() + kBetweenReports;
    report(" ...");
  }));
  const std::chrono::duration<double> took = Clock::now() - begin;
  report(absl::StrFormat(" in %.1f s", took.count()).c_str());
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<RankedModel>> RankedModel::Load(
    const RankedModelOptions& options) {
  BOLE_ASSIGN_OR_RETURN(std::vector<std::unique_ptr<Backend>> backends,
                        ChooseBackends(options));
  return LoadOn(std::move(backends), options);
}

absl::StatusOr<std::unique_ptr<RankedModel>> RankedModel::LoadOn(
    std::vector<std::unique_ptr<Backend>> backends,
    const RankedModelOptions& options) {
  std::unique_ptr<RankedModel> ranked(
      new RankedModel(std::move(backends), options.rank_deadline));
  BOLE_RETURN_IF_ERROR(ranked->LoadParts(options));
  return ranked;
}

RankedModel::RankedModel(std::vector<std::unique_ptr<Backend>> backends,
                         std::chrono::milliseconds rank_deadline)
    : rank_deadline_(rank_deadline),
      threads_(static_cast<int>(backends.size())) {
  for (std::unique_ptr<Backend>& backend : backends) {
    ranks_.emplace_back().backend = std::move(backend);
  }
}

absl::Status RankedModel::LoadParts(const RankedModelOptions& options) {
  BOLE_RETURN_IF_ERROR(threads_.Run([&](int rank) -> absl::Status {
    Part& part = ranks_[static_cast<size_t>(rank)];
    BOLE_ASSIGN_OR_RETURN(part.model, LoadModel(options.name, *part.backend));
    BOLE_RETURN_IF_ERROR(SetDraftHead(options.name, options.draft_head,
                                      *part.backend, part.model));
    return SetDraftWeights(options.draft_weights, *part.backend,
                           *part.model.weights);
  }));
  // Parts are of the same size, and so is what is left for slots and pages.
  BOLE_ASSIGN_OR_RETURN(
      planned_, FitToDevice(options.engine, ranks_[0].model, *ranks_[0].backend,
                            options.memory_fraction));
  BOLE_RETURN_IF_ERROR(threads_.Run([&](int rank) -> absl::Status {
    Part& part = ranks_[static_cast<size_t>(rank)];
    BOLE_ASSIGN_OR_RETURN(part.engine,
                          Engine::Create(part.model.config, *part.model.weights,
                                         *part.backend, planned_.options));
    return absl::OkStatus();
  }));
  // Backends that keep graphs are the only rank.
  return WarmUp(options.warm_up, *ranks_[0].engine);
}

absl::Status RankedModel::Step(const StepPlan& plan, const OnRound& on_round) {
  if (num_ranks() == 1) return ranks_[0].engine->StepValidated(plan, on_round);
  RoundAgreement agreement(num_ranks(), rank_deadline_);
  absl::Status agreed;  // Rank 0's alone.
  const absl::Status run = threads_.Run([&](int rank) {
    const Part& part = ranks_[static_cast<size_t>(rank)];
    const OnRound compare = [&](StepResult result) {
      if (rank > 0) return agreement.Say(rank, std::move(result));
      if (!agreed.ok()) return;
      agreed = agreement.Compare(result);
      if (agreed.ok()) return on_round(std::move(result));
      part.backend->AbortRanks(agreed);
    };
    absl::Status status = part.engine->StepValidated(plan, compare);
    agreement.Leave(rank);
    return Named(rank, status);
  });
  // Where a rank has failed, the others can only say that it has left.
  return absl::IsInternal(agreed) || run.ok() ? agreed : run;
}

}  // namespace bole
