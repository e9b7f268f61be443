// The engine's part for forests: one round between two copies.
#include "common/status_macros.h"
#include "worker_service/engine.h"

namespace bole {
namespace {

// Of a round; its marks are not set again before kRoundsInFlight later ones.
enum RoundMark { kBegin, kForwarded, kAccepted, kEnd, kMarksPerRound };
constexpr int kRoundsInFlight = 15;

int MarkOf(int64_t round, RoundMark mark) {
  return static_cast<int>(round % kRoundsInFlight) * kMarksPerRound + mark;
}

// What a graph holds.
enum GraphPart { kRound, kForward, kAccept, kDraft };

}  // namespace

void Engine::LayRound(const RoundShape& shape, TransferBlock& up,
                      TransferBlock& down) {
  up.Clear();
  down.Clear();
  rows_.Lay({.max_requests = shape.requests,
             .max_rows = shape.rows,
             .mask_words = shape.mask_words,
             .max_pages = options_.MaxPagesPerRequest()},
            up);
  sampling_.LayParameters({.requests = shape.requests, .rows = shape.rows}, up);
  sampling_.LayResults(down);
  if (shape.draft) drafter_->Lay(shape.requests, *shape.draft, up, down);
  LayOptional(up, down);
}

void Engine::FillRound(const StepPlan& plan, Sequences sequences) {
  std::vector<HostSequence> memory;
  memory.reserve(sequences.size());
  for (const SequencePlan* sequence : sequences) {
    memory.push_back(MemoryOf(*sequence));
  }
  rows_.Fill(RowsOf(plan.forest), memory);
  sampling_.Fill(sequences);
  if (plan.draft) drafter_->Fill(static_cast<int>(sequences.size()));
}

absl::StatusOr<Engine::Results> Engine::RunForest(const StepPlan& plan) {
  std::vector<const SequencePlan*> sequences;
  sequences.reserve(plan.sequences.size());
  for (const SequencePlan& sequence : plan.sequences) {
    sequences.push_back(&sequence);
  }
  const RoundShape shape = ShapeOf(plan, options_);
  const int64_t round = num_rounds_++;
  LayRound(shape, up_, down_);
  FillRound(plan, sequences);
  BOLE_RETURN_IF_ERROR(Upload(sequences));
  BOLE_RETURN_IF_ERROR(backend_.SetMark(MarkOf(round, kBegin)));
  BOLE_RETURN_IF_ERROR(RunRound(shape, round));
  BOLE_RETURN_IF_ERROR(backend_.SetMark(MarkOf(round, kEnd)));
  BOLE_RETURN_IF_ERROR(QueueDownload(sequences, /*image=*/0));
  BOLE_RETURN_IF_ERROR(backend_.SetMark(kDoneMark));
  BOLE_RETURN_IF_ERROR(backend_.AwaitMark(kDoneMark));
  BOLE_RETURN_IF_ERROR(AddTimes(round));
  Results results = ReadResults(sequences, plan.draft, /*image=*/0);
  for (size_t b = 0; b < results.size(); ++b) {
    results[b].committed += sequences[b]->committed;
  }
  return results;
}

absl::Status Engine::RunRound(const RoundShape& shape, int64_t round) {
  if (!options_.time_phases) {
    return graphs_->Replay(shape.Key(kRound), [&]() -> absl::Status {
      BOLE_RETURN_IF_ERROR(QueueForward(shape));
      BOLE_RETURN_IF_ERROR(QueueAccept(shape));
      return shape.draft ? QueueDraft(shape) : absl::OkStatus();
    });
  }
  BOLE_RETURN_IF_ERROR(graphs_->Replay(shape.Key(kForward),
                                       [&] { return QueueForward(shape); }));
  BOLE_RETURN_IF_ERROR(backend_.SetMark(MarkOf(round, kForwarded)));
  BOLE_RETURN_IF_ERROR(
      graphs_->Replay(shape.Key(kAccept), [&] { return QueueAccept(shape); }));
  BOLE_RETURN_IF_ERROR(backend_.SetMark(MarkOf(round, kAccepted)));
  if (!shape.draft) return absl::OkStatus();
  return graphs_->Replay(shape.Key(kDraft), [&] { return QueueDraft(shape); });
}

absl::Status Engine::QueueForward(const RoundShape& shape) {
  BOLE_RETURN_IF_ERROR(model_.Forward(
      {.batch = rows_.batch(),
       .token = rows_.token(),
       .mode = shape.is_decode ? ForwardMode::kDecode : ForwardMode::kVerify,
       .all_rows = rows_.all_rows(),
       .solver = options_.solver},
      hidden_));
  return model_.Logits(rows_.batch().rows, hidden_, logits_);
}

absl::Status Engine::QueueAccept(const RoundShape& shape) {
  BOLE_RETURN_IF_ERROR(backend_.Sample(SampleOf(rows_)));
  if (!shape.is_decode) {
    BOLE_RETURN_IF_ERROR(model_.Commit(rows_.batch(), sampling_.path()));
  }
  return CountTokens(rows_, sampling_.path());
}

absl::Status Engine::QueueDraft(const RoundShape& shape) {
  const Drafter::Committed committed{.batch = rows_.batch(),
                                     .token = rows_.token(),
                                     .path = sampling_.path(),
                                     .max_path_rows = shape.path_rows,
                                     .next_token = sampling_.next_token(),
                                     .hidden = hidden_};
  BOLE_RETURN_IF_ERROR(drafter_->Extend(committed));
  return drafter_->Grow(committed);
}

absl::Status Engine::AddTimes(int64_t round) {
  const auto add = [&](double& sum, int from, int to) -> absl::Status {
    BOLE_ASSIGN_OR_RETURN(const double seconds,
                          backend_.SecondsBetween(from, to));
    sum += seconds;
    return absl::OkStatus();
  };
  const int begin = MarkOf(round, kBegin);
  const int end = MarkOf(round, kEnd);
  ++times_.rounds;
  BOLE_RETURN_IF_ERROR(add(times_.busy, begin, end));
  if (round > 0) {
    BOLE_RETURN_IF_ERROR(add(times_.idle, MarkOf(round - 1, kEnd), begin));
  }
  if (!options_.time_phases) return absl::OkStatus();
  const int forwarded = MarkOf(round, kForwarded);
  const int accepted = MarkOf(round, kAccepted);
  BOLE_RETURN_IF_ERROR(add(times_.forward, begin, forwarded));
  BOLE_RETURN_IF_ERROR(add(times_.accept, forwarded, accepted));
  return add(times_.draft, accepted, end);
}

}  // namespace bole
