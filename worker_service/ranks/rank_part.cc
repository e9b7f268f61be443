#include "worker_service/ranks/rank_part.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/status_macros.h"
#include "common/step.h"
#include "kernels/rank.h"
#include "worker_service/loading/choose_backend.h"
#include "worker_service/loading/draft_head.h"
#include "worker_service/loading/draft_weights.h"
#include "worker_service/loading/loading_report.h"
#include "worker_service/ranks/host_communicator.h"
#include "worker_service/ranks/plan_channel.h"
#include "worker_service/ranks/plan_codec.h"
#include "worker_service/ranks/round_digest.h"

namespace bole {
namespace {

// The sizes that FitToDevice() chooses.
constexpr int EngineOptions::*kChosenSizes[] = {
    &EngineOptions::max_requests,       &EngineOptions::max_nodes,
    &EngineOptions::max_nodes_per_tree, &EngineOptions::max_prefill_tokens,
    &EngineOptions::num_slots,          &EngineOptions::num_checkpoints,
    &EngineOptions::num_pages,          &EngineOptions::num_host_slots,
    &EngineOptions::num_host_pages,     &EngineOptions::max_context,
    &EngineOptions::max_lease_rounds};

// The sizes that fit on every rank. If they are less than a rank's own sizes,
// they fit there too.
absl::StatusOr<PlannedEngine> FitToRanks(const RankedModelOptions& options,
                                         const LoadedModel& model,
                                         Backend& backend,
                                         Communicator* ranks) {
  const auto fit = [&](const EngineOptions& engine) {
    return FitToDevice(engine, model, backend, options.memory_fraction);
  };
  BOLE_ASSIGN_OR_RETURN(PlannedEngine planned, fit(options.engine));
  if (ranks == nullptr) return planned;
  constexpr size_t kCount = std::size(kChosenSizes);
  std::vector<int32_t> own;
  for (int EngineOptions::*size : kChosenSizes) {
    own.push_back(planned.options.*size);
  }
  std::vector<int32_t> all(kCount * static_cast<size_t>(ranks->rank().count));
  BOLE_RETURN_IF_ERROR(ranks->AllGather(
      std::as_bytes(std::span(own)), std::as_writable_bytes(std::span(all))));
  for (size_t i = 0; i < all.size(); ++i) {
    int& size = planned.options.*kChosenSizes[i % kCount];
    size = std::min(size, int{all[i]});
  }
  planned.options.host_cache_gb = 0;  // Replaced by the numbers above.
  return fit(planned.options);
}

// Returns the first rank's value of `own` on all ranks.
absl::StatusOr<bool> OfFirstRank(bool own, Communicator* ranks) {
  if (ranks == nullptr) return own;
  const auto said = static_cast<std::byte>(own);
  std::byte whole{};
  BOLE_RETURN_IF_ERROR(
      ranks->AllGather(std::span(&said, ranks->rank().index == 0 ? 1 : 0),
                       std::span(&whole, 1)));
  return whole != std::byte{};
}

// Captures graphs for at most `limit`. The first rank prints its progress every
// few seconds, and a summary at the end.
absl::Status WarmUp(std::chrono::seconds limit, Communicator* ranks,
                    Engine& engine) {
  using Clock = std::chrono::steady_clock;
  if (limit == limit.zero() || engine.num_graphs() == 0) {
    return absl::OkStatus();
  }
  constexpr std::chrono::seconds kBetweenReports(2);
  const bool is_first = ranks == nullptr || ranks->rank().index == 0;
  const Clock::time_point begin = Clock::now();
  Clock::time_point next_report = begin + kBetweenReports;
  int num_done = 0;
  int num_all = 0;
  const auto report = [&](const char* end) {
    if (!is_first) return;
    std::printf("warming up: %d of %d kinds of rounds captured%s\n", num_done,
                num_all, end);
    std::fflush(stdout);
  };
  BOLE_RETURN_IF_ERROR(engine.WarmUp([&](int done, int all) {
    num_done = done;
    num_all = all;
    const Clock::time_point now = Clock::now();
    if (done < all && now >= next_report) {
      next_report = now + kBetweenReports;
      report(" ...");
    }
    return OfFirstRank(now < begin + limit, ranks);
  }));
  const std::chrono::duration<double> took = Clock::now() - begin;
  report(absl::StrFormat(" in %.1f s", took.count()).c_str());
  return absl::OkStatus();
}

absl::Status Load(const MakeBackend& make_backend,
                  const RankedModelOptions& options, RankPart& part) {
  BOLE_ASSIGN_OR_RETURN(part.backend, make_backend(options, part.ranks));
  BOLE_RETURN_IF_ERROR(part.backend->BindThread());
  const Rank rank = part.backend->rank();
  const std::string whose =
      rank.count == 1 ? "" : absl::StrCat(" on each of ", rank.count, " ranks");
  // Only the first rank reports, since the others progress alike.
  BOLE_ASSIGN_OR_RETURN(
      part.model,
      LoadModel(
          options.name, *part.backend,
          rank.index == 0 ? ReportLoading(stdout, {.whose = whose}) : nullptr));
  BOLE_RETURN_IF_ERROR(SetDraftHead(options.name, options.draft_head,
                                    *part.backend, part.model));
  BOLE_RETURN_IF_ERROR(SetDraftWeights(options.draft_weights, *part.backend,
                                       *part.model.weights));
  BOLE_ASSIGN_OR_RETURN(
      part.planned,
      FitToRanks(options, part.model, *part.backend, part.ranks.get()));
  BOLE_ASSIGN_OR_RETURN(part.engine,
                        Engine::Create(part.model.config, *part.model.weights,
                                       *part.backend, part.planned.options));
  return WarmUp(options.warm_up, part.ranks.get(), *part.engine);
}

absl::Status RunPlans(PlanReceiver& plans, Engine& engine) {
  while (true) {
    BOLE_ASSIGN_OR_RETURN(const auto message, plans.Receive());
    if (!message) return absl::OkStatus();
    BOLE_ASSIGN_OR_RETURN(const StepPlan plan, ParsePlan(*message));
    BOLE_RETURN_IF_ERROR(engine.StepValidated(
        plan, [&](const StepResult& result) { plans.Say(DigestOf(result)); }));
    plans.Done();
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> MakeNamedBackend(
    const RankedModelOptions& options, std::shared_ptr<Communicator> ranks) {
  return ChooseBackend(options.device, options.ThreadsOfRank(),
                       std::move(ranks), options.collectives);
}

absl::StatusOr<std::unique_ptr<RankPart>> LoadPart(
    const MakeBackend& make_backend, std::shared_ptr<Communicator> ranks,
    const RankedModelOptions& options) {
  auto part = std::make_unique<RankPart>();
  part->ranks = std::move(ranks);
  absl::Status status = Load(make_backend, options, *part);
  if (status.ok()) return part;
  // This comes before the communicator is destroyed, which would end the group
  // with a less useful reason.
  if (part->ranks != nullptr) part->ranks->Abort(status);
  return status;
}

absl::Status FollowFirstRank(const std::shared_ptr<RankGroup>& group, int rank,
                             const MakeBackend& make_backend,
                             const std::function<void()>& on_error) {
  PlanReceiver plans(group, rank);
  std::unique_ptr<RankPart> part;
  const auto follow = [&]() -> absl::Status {
    BOLE_ASSIGN_OR_RETURN(const auto message, plans.Receive());
    if (!message) return absl::OkStatus();
    BOLE_ASSIGN_OR_RETURN(const RankedModelOptions options,
                          DecodeRankOptions(*message));
    BOLE_ASSIGN_OR_RETURN(
        part,
        LoadPart(make_backend, MakeHostCommunicator(group, rank), options));
    plans.Done();
    return RunPlans(plans, *part->engine);
  };
  absl::Status status = follow();
  if (!status.ok()) {
    group->Leave(rank, status);
    on_error();
  }
  return status;
}

}  // namespace bole
