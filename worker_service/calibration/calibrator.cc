#include "worker_service/calibration/calibrator.h"

#include <algorithm>
#include <cstddef>
#include <ctime>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker_service/calibration/plan_maker.h"

namespace bole {
namespace {

using Clock = std::chrono::steady_clock;

// Each kind of round is measured in several turns, with kRoundsInTurn rounds in
// each. Its trees are proposed only once per turn.
constexpr int kCoarseTurns = 3;
constexpr int kFullTurns = 5;
constexpr int kRoundsInTurn = 2;
// Bound on the samples of one kind of round that come from leases.
constexpr size_t kMaxSamples = 64;

struct Sample {
  RoundQuantities quantities;
  double microseconds;
};

// "2026-11-24T13:00:00Z"
std::string TimeNow() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  const size_t size =
      std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return std::string(text, size);
}

double MedianOf(std::vector<double> values) {
  const auto middle =
      values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// The median of each quantity and of the time. They belong together, because
// samples of one kind hardly differ in their quantities.
Observation MedianOf(const std::vector<Sample>& samples) {
  Observation median;
  std::vector<double> values(samples.size());
  for (int quantity = 0; quantity < kNumQuantities; ++quantity) {
    for (size_t i = 0; i < samples.size(); ++i) {
      values[i] = samples[i].quantities[quantity];
    }
    median.quantities[quantity] = MedianOf(values);
  }
  for (size_t i = 0; i < samples.size(); ++i) {
    values[i] = samples[i].microseconds;
  }
  median.microseconds = MedianOf(values);
  return median;
}

// The quantities of the rounds of a lease after the first one.
class LeasedRounds {
 public:
  LeasedRounds(const StepPlan& plan, const StepResult& first) : plan_(plan) {
    Advance(first);
  }

  // REQUIRES: the results come in order.
  RoundQuantities Next(const StepResult& result) {
    StepPlan round{.sequences = plan_.sequences,
                   .forest = *result.forest,
                   .draft = plan_.draft};
    for (size_t b = 0; b < committed_.size(); ++b) {
      round.sequences[b].committed = committed_[b];
    }
    Advance(result);
    return QuantitiesOf(round);
  }

 private:
  void Advance(const StepResult& result) {
    committed_.clear();
    for (const SequenceResult& sequence : result.sequences) {
      committed_.push_back(sequence.committed);
    }
  }

  const StepPlan& plan_;
  std::vector<int> committed_;
};

class Calibrator {
 public:
  Calibrator(const CalibrationOptions& options, const CalibrationLayout& layout,
             const RunPlan& run, const OnCalibrationProgress& on_progress)
      : options_(options),
        num_deferring_(options.has_drafter ? layout.most_tail : 0),
        run_(run),
        on_progress_(on_progress),
        plans_(options_.limits, layout, options.sampling),
        combinations_(CombinationsOf(options_.limits, options.has_drafter,
                                     options.size, layout)),
        samples_(combinations_.size()),
        begin_(Clock::now()) {}

  absl::StatusOr<CostTable> Run() {
    BOLE_RETURN_IF_ERROR(Prefill());
    BOLE_RETURN_IF_ERROR(MeasureAll());
    on_progress_({.phase = "fitting", .done = 0, .total = 1});
    CostTable table = Fit();
    on_progress_({.phase = "fitting", .done = 1, .total = 1});
    return table;
  }

 private:
  bool IsOver() const {
    return options_.max_time.count() > 0 &&
           Clock::now() - begin_ > options_.max_time;
  }

  absl::StatusOr<std::vector<TimedRound>> RunAndApply(const StepPlan& plan) {
    BOLE_ASSIGN_OR_RETURN(std::vector<TimedRound> rounds, run_(plan));
    if (rounds.empty()) return absl::InternalError("a plan gave no result");
    for (const TimedRound& round : rounds) {
      BOLE_RETURN_IF_ERROR(plans_.Apply(plan, round.result));
    }
    return rounds;
  }

  absl::Status Prefill() {
    const std::vector<StepPlan> prefills = plans_.Prefills();
    const int chunks = static_cast<int>(prefills.size());
    const int total = chunks + num_deferring_;
    for (int i = 0; i < total; ++i) {
      on_progress_({.phase = "prefilling", .done = i, .total = total});
      BOLE_RETURN_IF_ERROR(RunAndApply(i < chunks
                                           ? prefills[i]
                                           : plans_.DeferringPlan(i - chunks))
                               .status());
    }
    return absl::OkStatus();
  }

  absl::Status MeasureAll() {
    const int kinds = static_cast<int>(combinations_.size());
    const int turns =
        options_.size == CalibrationSize::kCoarse ? kCoarseTurns : kFullTurns;
    for (int turn = 0; turn < turns; ++turn) {
      for (int kind = 0; kind < kinds; ++kind) {
        if (IsOver()) return turn > 0 ? absl::OkStatus() : Late(kind);
        on_progress_({.phase = "measuring",
                      .done = turn * kinds + kind,
                      .total = turns * kinds});
        BOLE_RETURN_IF_ERROR(Measure(combinations_[kind], samples_[kind]));
      }
    }
    return absl::OkStatus();
  }

  absl::Status Late(int kinds) const {
    return absl::DeadlineExceededError(
        absl::StrCat("only ", kinds, " of ", combinations_.size(),
                     " kinds of rounds could be measured in ",
                     std::chrono::duration<double>(options_.max_time).count(),
                     " s; give it more time, or calibrate coarsely"));
  }

  absl::Status Measure(const Combination& combination,
                       std::vector<Sample>& samples) {
    const std::optional<StepPlan> before = plans_.Before(combination);
    if (before) BOLE_RETURN_IF_ERROR(RunAndApply(*before).status());
    // There may be more kinds of rounds than graphs that are kept, so the first
    // round of a turn may have to be captured again and is not counted.
    const int uncounted = options_.row_buckets.empty() ? 0 : 1;
    for (int i = 0; i < uncounted + kRoundsInTurn; ++i) {
      const StepPlan plan = plans_.PlanOf(combination);
      BOLE_ASSIGN_OR_RETURN(const std::vector<TimedRound> rounds,
                            RunAndApply(plan));
      if (i >= uncounted) AddSamples(plan, rounds, samples);
    }
    return absl::OkStatus();
  }

  void AddSamples(const StepPlan& plan, const std::vector<TimedRound>& rounds,
                  std::vector<Sample>& samples) {
    if (!plan.lease) {
      samples.push_back({QuantitiesOf(plan), rounds[0].seconds * 1e6});
      return;
    }
    LeasedRounds leased(plan, rounds[0].result);
    for (size_t i = 1; i < rounds.size(); ++i) {
      if (!rounds[i].result.forest || samples.size() >= kMaxSamples) return;
      samples.push_back(
          {leased.Next(rounds[i].result), rounds[i].seconds * 1e6});
    }
  }

  CostTable Fit() {
    std::vector<Observation> fitted;
    std::vector<Observation> held_out;
    CostTable table{.of = options_.of};
    for (size_t kind = 0; kind < combinations_.size(); ++kind) {
      std::vector<Sample>& samples = samples_[kind];
      if (samples.empty()) continue;  // A lease that ended at once.
      table.num_combinations += 1;
      table.num_measurements += static_cast<int>(samples.size());
      if (samples.size() > 1) samples.erase(samples.begin());
      Observation median = MedianOf(samples);
      median.is_plan = combinations_[kind].rounds == 1;
      (combinations_[kind].held_out ? held_out : fitted).push_back(median);
    }
    const FittedCosts costs =
        FitCosts(fitted, options_.row_buckets, options_.experts);
    table.costs = costs.costs;
    table.round_trip_seconds =
        options_.round_trip_seconds + costs.plan_microseconds * 1e-6;
    table.measured_at = TimeNow();
    for (const Observation& round : held_out) {
      const std::chrono::duration<double, std::micro> predicted =
          table.costs.TimeOf(round.quantities);
      table.held_out.push_back(
          {.quantities = round.quantities,
           .predicted_us = predicted.count() + costs.plan_microseconds,
           .measured_us = round.microseconds});
    }
    return table;
  }

  const CalibrationOptions options_;
  const int num_deferring_;  // Plans that defer drafts, to prepare tails.
  const RunPlan& run_;
  const OnCalibrationProgress& on_progress_;
  PlanMaker plans_;
  const std::vector<Combination> combinations_;
  std::vector<std::vector<Sample>> samples_;  // By combination.
  const Clock::time_point begin_;
};

}  // namespace

absl::StatusOr<CostTable> Calibrate(const CalibrationOptions& options,
                                    const RunPlan& run,
                                    const OnCalibrationProgress& on_progress) {
  BOLE_ASSIGN_OR_RETURN(const CalibrationLayout layout,
                        LayoutOf(options.limits, options.size));
  return Calibrator(options, layout, run, on_progress).Run();
}

}  // namespace bole
