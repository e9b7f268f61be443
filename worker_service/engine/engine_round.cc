// The part of the engine that runs rounds of a forest, from the upload of a
// plan to the download of its results.
#include <algorithm>
#include <utility>

#include "common/status_macros.h"
#include "worker_service/engine/engine.h"

namespace bole {
namespace {

// The marks of a round. They are reused after kMarkedRounds rounds.
enum RoundMark { kBegin, kForwarded, kAccepted, kEnd, kDone, kMarksPerRound };
constexpr int kMarkedRounds = (Device::kNumMarks - 1) / kMarksPerRound;
// The number of rounds that are queued in advance of the round whose result is
// read next.
constexpr int kRoundsAhead = 1;
static_assert(kRoundsAhead + 2 <= kMarkedRounds);

int MarkOf(int64_t round, RoundMark mark) {
  return static_cast<int>(round % kMarkedRounds) * kMarksPerRound + mark;
}

// Follows the sequences of a lease, to tell when all of them have ended.
class Progress {
 public:
  explicit Progress(std::span<const SequencePlan* const> sequences)
      : sequences_(sequences) {
    committed_.reserve(sequences.size());
    left_.reserve(sequences.size());
    for (const SequencePlan* sequence : sequences) {
      committed_.push_back(sequence->committed);
      left_.push_back(sequence->max_new_tokens);
    }
  }

  // Adds the results of a round.
  void Add(const std::vector<SequenceResult>& results) {
    for (size_t b = 0; b < results.size(); ++b) {
      const std::vector<EmittedToken>& emitted = results[b].emitted;
      committed_[b] = results[b].committed;
      left_[b] -= static_cast<int>(emitted.size());
      const std::vector<int32_t>& stops = sequences_[b]->stop_tokens;
      const bool ended = emitted.empty() || results[b].bad_logits_position ||
                         std::find(stops.begin(), stops.end(),
                                   emitted.back().token) != stops.end();
      if (ended) left_[b] = 0;
    }
  }
  // The committed tokens of each sequence.
  std::span<const int32_t> committed() const { return committed_; }
  bool all_ended(int max_context) const {
    for (size_t b = 0; b < left_.size(); ++b) {
      if (left_[b] > 0 && committed_[b] < max_context) return false;
    }
    return true;
  }

 private:
  std::span<const SequencePlan* const> sequences_;
  std::vector<int32_t> committed_;
  std::vector<int32_t> left_;  // Tokens that may be emitted.
};

}  // namespace

// A captured graph contains addresses. The addresses that a draft uses must not
// depend on the rows of the forest, nor those of a forest on the draft that
// follows; all may depend on the number of requests. So the arrays that both
// use come first, with room for any draft and for the tokens of any forest, and
// then come the arrays whose length depends on the forest.
void Engine::BindRound(const RoundShape& shape, TransferBlock& up,
                       TransferBlock& down) {
  up.Clear();
  down.Clear();
  rows_.BindRequests({.max_requests = shape.requests,
                      .max_rows = shape.rows,
                      .mask_words = shape.mask_words,
                      .max_path = shape.max_path,
                      .max_pages = options_.MaxPagesPerRequest(),
                      .token_room = options_.max_nodes},
                     up);
  sampling_.BindParameters({.requests = shape.requests,
                            .rows = shape.rows,
                            .emitted_room = options_.max_nodes},
                           up);
  sampling_.BindResults(down);
  if (drafter_) {
    drafter_->Bind(shape.requests, shape.draft.value_or(options_.max_draft), up,
                   down);
  }
  budget_ = up.Take<int32_t>(1);
  floor_ = up.Take<int32_t>(shape.requests);
  cap_ = up.Take<int32_t>(shape.requests);
  no_token_ = up.Take<int32_t>(shape.requests);
  no_parent_ = up.Take<int32_t>(shape.requests);
  no_log_rho_ = up.Take<float>(shape.requests);
  rows_.BindRows(up);
  sampling_.BindOptional(up, down);
}

void Engine::FillRound(const StepPlan& plan, Sequences sequences) {
  std::vector<HostSequence> memory;
  memory.reserve(sequences.size());
  for (const SequencePlan* sequence : sequences) {
    memory.push_back(MemoryOf(*sequence));
  }
  rows_.Fill(RowsOf(plan.forest), memory);
  sampling_.Fill(sequences);
  FillLease(plan.lease.value_or(Lease{}));
  if (plan.draft) drafter_->Fill(NumDrafted(sequences));
}

void Engine::FillLease(const Lease& lease) {
  *budget_.host = std::min(lease.budget, rows_.batch().rows.max);
  std::ranges::fill(floor_.values(), 1);
  std::ranges::fill(cap_.values(), lease.max_nodes_per_tree);
  for (size_t b = 0; b < lease.bounds.size(); ++b) {
    floor_.host[b] = lease.bounds[b].floor;
    cap_.host[b] = lease.bounds[b].cap;
  }
  std::ranges::fill(no_token_.values(), 0);
  std::ranges::fill(no_parent_.values(), kNoParent);
  std::ranges::fill(no_log_rho_.values(), 0);
}

absl::Status Engine::RunForest(const StepPlan& plan, const OnRound& on_round) {
  std::vector<const SequencePlan*> sequences;
  sequences.reserve(plan.sequences.size());
  for (const SequencePlan& sequence : plan.sequences) {
    sequences.push_back(&sequence);
  }
  const RoundShape shape = ShapeOf(plan, options_);
  const int num_rounds = plan.lease ? plan.lease->rounds : 1;
  const int64_t first_round = num_rounds_;
  BindRound(shape, up_, down_);
  FillRound(plan, sequences);
  BOLE_RETURN_IF_ERROR(Upload(sequences));
  if (shape.has_chunks) BOLE_RETURN_IF_ERROR(UploadPrefills(plan));

  Progress progress(sequences);
  StepResult result;
  const auto await = [&](int index) {
    return device_.AwaitMark(MarkOf(first_round + index, kDone));
  };
  int num_queued = 0;
  bool is_last = false;
  for (int index = 0; !is_last; ++index) {
    while (num_queued < std::min(index + 1 + kRoundsAhead, num_rounds)) {
      BOLE_RETURN_IF_ERROR(QueueRound(shape, sequences, num_queued++));
    }
    BOLE_RETURN_IF_ERROR(await(index));
    BOLE_RETURN_IF_ERROR(AddTimes(first_round + index));
    is_last = index + 1 == num_rounds;
    result.round = index;
    result.sequences = ReadResults(sequences, progress.committed(),
                                   is_last ? plan.draft : std::nullopt, index);
    progress.Add(result.sequences);
    is_last = is_last || progress.all_ended(limits_.max_context);
    result.is_last = is_last;
    if (shape.has_chunks) {
      BOLE_ASSIGN_OR_RETURN(result.prefills, ReadPrefills(plan));
    }
    if (index > 0) {
      result.forest =
          rows_.Forest(up_, index, static_cast<int>(sequences.size()));
      if (plan.draft) {
        drafter_->AddPromised(down_, index - 1, *result.forest,
                              result.sequences);
      }
    }
    on_round(std::exchange(result, {}));
  }
  // A round may already be queued whose sequences have all ended. Wait for it
  // too.
  return await(num_queued - 1);
}

absl::Status Engine::QueueRound(const RoundShape& shape, Sequences sequences,
                                int index) {
  const int64_t round = num_rounds_++;
  BOLE_RETURN_IF_ERROR(device_.SetMark(MarkOf(round, kBegin)));
  BOLE_RETURN_IF_ERROR(Replay(shape, index, round));
  BOLE_RETURN_IF_ERROR(device_.SetMark(MarkOf(round, kEnd)));
  BOLE_RETURN_IF_ERROR(QueueDownload(sequences, index));
  if (shape.has_chunks) BOLE_RETURN_IF_ERROR(QueuePrefillDownload());
  if (index > 0) {
    BOLE_RETURN_IF_ERROR(up_.QueueDownload(rows_.forest_bytes(), index));
  }
  return device_.SetMark(MarkOf(round, kDone));
}

absl::Status Engine::Replay(const RoundShape& shape, int index, int64_t round) {
  using enum GraphPart;
  if (index > 0) BOLE_RETURN_IF_ERROR(QueueNextForest(shape));
  const auto forward = [&] {
    return shape.has_chunks ? QueueJointForward(shape) : QueueForward(shape);
  };
  const auto accept = [&]() -> absl::Status {
    if (shape.has_chunks) BOLE_RETURN_IF_ERROR(QueuePrefillAccept());
    return QueueAccept(shape);
  };
  const auto verify = [&]() -> absl::Status {
    BOLE_RETURN_IF_ERROR(forward());
    return accept();
  };
  const auto draft = [&]() -> absl::Status {
    if (shape.has_chunks) BOLE_RETURN_IF_ERROR(QueuePrefillDraft());
    return shape.ends_with_draft() ? QueueDraft(shape) : absl::OkStatus();
  };
  // Chunks have too many sizes for graphs to be captured.
  QueuedGraphs queued;
  GraphSet& graphs = shape.has_chunks ? queued : *graphs_;
  if (options_.time_phases) {
    BOLE_RETURN_IF_ERROR(graphs.Replay(shape.Key(kForward), forward));
    BOLE_RETURN_IF_ERROR(device_.SetMark(MarkOf(round, kForwarded)));
    BOLE_RETURN_IF_ERROR(graphs.Replay(shape.Key(kAccept), accept));
    BOLE_RETURN_IF_ERROR(device_.SetMark(MarkOf(round, kAccepted)));
  } else {
    BOLE_RETURN_IF_ERROR(graphs.Replay(shape.Key(kVerify), verify));
  }
  if (!shape.ends_with_draft() && !shape.has_chunks) return absl::OkStatus();
  return graphs.Replay(shape.Key(kDraft), draft);
}

absl::Status Engine::QueueNextForest(const RoundShape& shape) {
  AdvanceRequestsParams advance{};
  sampling_.SetInputs(advance);
  advance.max_context = limits_.max_context;
  advance.committed = rows_.committed();
  advance.node_limit = node_limit_;
  advance.depth_limit = depth_limit_;
  BOLE_RETURN_IF_ERROR(operators_.AdvanceRequests(advance));

  SelectForestParams select{};
  rows_.SetOutputs(select);
  select.shape = shape.draft.value_or(DraftShape{.top_k = 1, .depth = 1});
  select.max_nodes_per_tree = shape.max_nodes_per_tree;
  select.budget = budget_.device;
  select.floor = floor_.device;
  select.cap = cap_.device;
  select.root = sampling_.next_token();
  select.node_limit = node_limit_;
  select.depth_limit = depth_limit_;
  select.trees = shape.draft
                     ? drafter_->trees()
                     : CandidateTrees{no_token_.device, no_parent_.device,
                                      no_log_rho_.device};
  return operators_.SelectForest(select);
}

ForwardPart Engine::ForestOfForward(const RoundShape& shape) const {
  return {.batch = rows_.batch(),
          .token = rows_.token(),
          .mode = shape.is_decode ? ForwardMode::kDecode : ForwardMode::kVerify,
          .all_rows = rows_.all_rows(),
          .solver = options_.solver};
}

absl::Status Engine::QueueForward(const RoundShape& shape) {
  BOLE_RETURN_IF_ERROR(model_.Forward(ForestOfForward(shape), hidden_));
  return model_.Logits(rows_.batch().rows, hidden_, logits_);
}

absl::Status Engine::QueueAccept(const RoundShape& shape) {
  BOLE_RETURN_IF_ERROR(operators_.Sample(SampleOf(rows_, sampling_)));
  if (!shape.is_decode) {
    BOLE_RETURN_IF_ERROR(model_.Commit(rows_.batch(), sampling_.path()));
  }
  return CountTokens(rows_, sampling_.path(), sampling_);
}

absl::Status Engine::QueueDraftTails(const StepPlan& plan) {
  std::vector<const SequencePlan*> sequences;
  const auto add = [&sequences](const SequencePlan& sequence) {
    if (!sequence.draft_tail.empty()) sequences.push_back(&sequence);
  };
  for (const PrefillPlan& chunk : plan.prefills) add(chunk.sequence);
  for (const SequencePlan& sequence : plan.sequences) add(sequence);
  for (size_t done = 0; done < sequences.size();) {
    if (done > 0) {  // The previous pass must end before its arrays are reused.
      BOLE_RETURN_IF_ERROR(device_.SetMark(kPrefillMark));
      BOLE_RETURN_IF_ERROR(device_.AwaitMark(kPrefillMark));
    }
    const auto left = std::span(sequences).subspan(done);
    const auto fitting = left.first(draft_tails_->CountFitting(left));
    BOLE_RETURN_IF_ERROR(draft_tails_->Queue(fitting, hidden_));
    done += fitting.size();
  }
  return absl::OkStatus();
}

Drafter::Committed Engine::CommittedOf(const RoundShape& shape) const {
  return {.batch = rows_.batch(),
          .token = rows_.token(),
          .path = sampling_.path(),
          .max_path_rows = shape.path_rows,
          .next_token = sampling_.next_token(),
          .hidden = hidden_,
          .num_seen = drafter_->num_drafted()};
}

absl::Status Engine::QueueDraft(const RoundShape& shape) {
  const Drafter::Committed committed = CommittedOf(shape);
  if (shape.defers_draft) return draft_tails_->Keep(committed, kMaxDraftTail);
  BOLE_RETURN_IF_ERROR(draft_tails_->Keep(committed, /*most=*/1));
  BOLE_RETURN_IF_ERROR(drafter_->Extend(committed));
  return drafter_->Grow(committed);
}

absl::Status Engine::AddTimes(int64_t round) {
  const auto add = [&](double& sum, int from, int to) -> absl::Status {
    BOLE_ASSIGN_OR_RETURN(const double seconds,
                          device_.SecondsBetween(from, to));
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
