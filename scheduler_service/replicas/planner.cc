#include "scheduler_service/replicas/planner.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "common/draft_shape.h"
#include "common/packed_forest.h"
#include "common/proposal_tree.h"
#include "common/select_nodes.h"
#include "common/trim_tree.h"
#include "scheduler_service/policy/speculation.h"

namespace bole {
namespace {

// The number of tokens of the next chunk. It reaches the end of the prefill or
// the next checkpoint if there is room, else a grid position; 0 if there is no
// room for that.
int ChunkLength(const Placement& placement, int room) {
  const int left = placement.prefill_until_cut();
  if (left <= room) return left;
  const int end = (placement.committed() + room) / kPrefillGrid * kPrefillGrid;
  return std::max(end - placement.committed(), 0);
}

// The part of a tree that the request allows to be verified.
ProposalTree Bounded(const ProposalTree& tree,
                     const SpeculationOverride& bounds) {
  switch (bounds.mode) {
    case SpeculationMode::kOff:
      return TrimTree(tree, 1, 0);
    case SpeculationMode::kChain:
      return TrimTree(LikeliestChain(tree), bounds.max_nodes, bounds.max_depth);
    case SpeculationMode::kTree:
      break;
  }
  return TrimTree(tree, bounds.max_nodes, bounds.max_depth);
}

// The part of its tree that a job can use. It is bounded by the context, the
// job's pages after the drafter's rows, the tokens that it may still emit, and
// its request.
ProposalTree UsableTree(Placement& placement, const PlanOptions& options) {
  ProposalTree tree = placement.TakeTree();
  const std::optional<DraftShape>& draft = options.bounds.draft;
  if (tree.size() == 1) return tree;
  if (!draft) return TrimTree(tree, 1, 0);
  const StepLimits& limits = options.limits;
  const int kv_rows = placement.pages().size() * limits.page_size;
  const int positions =
      std::min(limits.max_context - placement.committed(),
               kv_rows - limits.KvRows(placement.committed(), 0, draft));
  const int max_depth = placement.job().max_new_tokens();
  // At most max_nodes_per_tree of its nodes are verified.
  const int most = std::min(options.bounds.max_nodes_per_tree, tree.size());
  if (draft->depth > max_depth || most > positions) {
    tree = TrimTree(tree, positions, max_depth);
  }
  const auto& own = placement.job().request().speculation;
  return own ? Bounded(tree, *own) : tree;
}

SequenceView ViewOf(const Placement& placement, TimePoint now) {
  Job& job = placement.job();
  const auto& own = job.request().speculation;
  SequenceView view{
      .acceptance = &job.acceptance,
      .speculates = !own || (own->mode != SpeculationMode::kOff &&
                             own->max_nodes > 1 && own->max_depth > 0),
      .is_followed = placement.is_followed(),
      .tokens_left = job.max_new_tokens()};
  const auto& target = job.request().targets.time_per_output_token;
  if (!target || !job.first_token) return view;
  using Seconds = std::chrono::duration<double>;
  view.seconds_per_token = Seconds(*target).count();
  view.seconds_since_first = Seconds(now - *job.first_token).count();
  view.tokens_since_first = job.num_output() - 1;
  return view;
}

using Prefills = std::vector<Placement*>;

// The placements in prefill in the order in which they get chunks: by arrival,
// or first those whose target for the first token is soonest and can still be
// met.
Prefills PrefillsOf(std::span<const std::unique_ptr<Placement>> placements,
                    bool urgent_first, TimePoint now) {
  Prefills prefills;
  for (const std::unique_ptr<Placement>& placement : placements) {
    const bool runs = placement->in_prefill() && !placement->waits();
    if (runs) prefills.push_back(placement.get());
  }
  if (!urgent_first) return prefills;
  const auto due = [now](const Placement* placement) {
    const Job& job = placement->job();
    const auto& target = job.request().targets.time_to_first_token;
    if (!target || job.first_token) return TimePoint::max();
    const TimePoint at = job.request().arrival + *target;
    return at < now ? TimePoint::max() : at;
  };
  std::stable_sort(
      prefills.begin(), prefills.end(),
      [&](const Placement* a, const Placement* b) { return due(a) < due(b); });
  return prefills;
}

// Adds to the policy's view the placements in prefill, as if chunks got all of
// `room`.
void AddPrefills(const Prefills& prefills, int room, RoundView& view) {
  for (const Placement* placement : prefills) {
    const int left = placement->prefill_left();
    const int length = ChunkLength(*placement, room);
    const bool joins = length == left;
    const bool arrives = !placement->has_run() && placement->is_followed();
    room -= length;
    view.prefill_tokens += left;
    ++view.prefilling;
    view.joining += joins ? 1 : 0;
    if (arrives) {
      if (view.arrivals++ == 0) view.arrival_tokens = left;
      view.joining_arrivals += joins ? 1 : 0;
    } else if (placement->is_followed()) {
      ++view.followed_prefills;
      view.joining_followed += joins ? 1 : 0;
    }
  }
}

// However urgent others are, the oldest placement gets the smallest possible
// chunk.
void PlanChunks(const Prefills& prefills, int room, PlannedRound& round) {
  const auto oldest =
      std::min_element(prefills.begin(), prefills.end(),
                       [](const Placement* a, const Placement* b) {
                         return ByArrival()(a->job(), b->job());
                       });
  int arrivals = 0;
  std::vector<std::pair<Placement*, int>> chunks;
  int kept = prefills.empty()
                 ? 0
                 : std::min(ChunkLength(**oldest, kPrefillGrid), room);
  for (Placement* placement : prefills) {
    if (placement == *oldest) kept = 0;
    const int length = ChunkLength(*placement, room - kept);
    if (length == 0) continue;
    room -= length;
    const bool arrives = !placement->has_run() && placement->is_followed();
    if (arrives && arrivals++ >= round.choice.followed_arrivals) {
      placement->Unfollow();
    }
    chunks.emplace_back(placement, length);
  }
  std::stable_partition(chunks.begin(), chunks.end(), [](const auto& chunk) {
    return chunk.first->is_followed();
  });
  for (const auto& [placement, length] : chunks) {
    round.prefills.push_back(placement);
    round.plan.prefills.push_back(placement->Chunk(length));
  }
}

// The drafter stops following placements if it misses tokens of theirs in this
// round.
void PlanFollowing(PlannedRound& round) {
  StepPlan& plan = round.plan;
  if (!plan.draft && !plan.defers_draft) {
    for (Placement* placement : round.prefills) placement->Unfollow();
    for (PrefillPlan& chunk : plan.prefills) chunk.sequence.draft_tail.clear();
    for (Placement* placement : round.sequences) placement->Unfollow();
    return;
  }
  for (size_t i = 0; i < round.prefills.size(); ++i) {
    plan.prefills[i].sequence.skips_drafter = !round.prefills[i]->is_followed();
  }
  for (size_t b = 0; b < round.sequences.size(); ++b) {
    plan.sequences[b].skips_drafter = !round.sequences[b]->is_followed();
  }
}

void PlanForest(const PlanOptions& options, PlannedRound& round) {
  RoundChoice& choice = round.choice;
  const int num_trees = static_cast<int>(round.trees.size());
  choice.budget =
      std::clamp(choice.budget, num_trees, options.limits.max_nodes);
  const int cap = options.bounds.max_nodes_per_tree;
  PackedTrees packed =
      PackForest(round.trees,
                 choice.bounds.empty()
                     ? SelectNodes(round.trees, choice.budget, cap)
                     : SelectNodes(round.trees, choice.budget, choice.bounds));
  round.plan.forest = std::move(packed.forest);
  round.tree_node = std::move(packed.tree_node);
}

// Whether the worker, which chooses the later nodes of a lease from all
// candidates, stays within what the request allows if it only obeys a cap.
bool CanBeLent(const SpeculationOverride& own, const PlanOptions& options,
               const std::optional<DraftShape>& draft) {
  if (!draft) return true;
  if (!options.knows_bounds) return false;
  if (own.mode == SpeculationMode::kOff || own.max_nodes == 1) return true;
  return draft->depth <= own.max_depth &&
         (own.mode == SpeculationMode::kTree || draft->top_k == 1);
}

void CapLease(const SpeculationOverride& own, TreeBounds& bounds) {
  const int cap = own.mode == SpeculationMode::kOff ? 1 : own.max_nodes;
  bounds.cap = std::min(bounds.cap, cap);
  bounds.floor = std::min(bounds.floor, bounds.cap);
}

void PlanLease(const PlanOptions& options, PlannedRound& round) {
  RoundChoice& choice = round.choice;
  const int rounds =
      std::min(choice.lease_rounds, options.limits.max_lease_rounds);
  if (rounds < 2 || !round.prefills.empty() || round.sequences.empty()) return;
  if (round.plan.draft && !round.sequences.back()->is_followed()) return;
  const int num_trees = static_cast<int>(round.trees.size());
  const int cap = options.bounds.max_nodes_per_tree;
  for (int b = 0; b < num_trees; ++b) {
    const auto& own = round.sequences[b]->job().request().speculation;
    if (!own) continue;
    if (!CanBeLent(*own, options, round.plan.draft)) return;
    if (!round.plan.draft) continue;
    if (choice.lease_bounds.empty()) {
      choice.lease_bounds.assign(num_trees, {.cap = cap});
    }
    CapLease(*own, choice.lease_bounds[b]);
  }
  if (!options.knows_bounds) choice.lease_bounds.clear();
  for (TreeBounds& bounds : choice.lease_bounds) {
    bounds.cap = std::min(bounds.cap, cap);
  }
  round.plan.lease = Lease{.rounds = rounds,
                           .budget = std::clamp(choice.lease_budget, num_trees,
                                                options.limits.max_nodes),
                           .max_nodes_per_tree = cap,
                           .bounds = choice.lease_bounds};
}

// Tokens that the plan may commit for one sequence.
int MostCommitted(const PlannedRound& round, int sequence) {
  const PackedForest& forest = round.plan.forest;
  const auto first = forest.depth.begin() + forest.first_node[sequence];
  const auto last = forest.depth.begin() + forest.first_node[sequence + 1];
  const int later = round.plan.lease ? round.plan.lease->rounds - 1 : 0;
  return *std::max_element(first, last) + 1 + later;
}

void PlanTails(PlannedRound& round) {
  for (size_t b = 0; b < round.sequences.size(); ++b) {
    const Placement& placement = *round.sequences[b];
    const int undrafted = placement.num_undrafted();
    if (undrafted == 0) continue;
    const bool fits =
        round.plan.defers_draft &&
        undrafted + MostCommitted(round, static_cast<int>(b)) <= kMaxDraftTail;
    if (!fits) round.plan.sequences[b].draft_tail = placement.DraftTail();
  }
}

}  // namespace

PlannedRound PlanRound(std::span<const std::unique_ptr<Placement>> placements,
                       RoundPolicy& policy, const PlanOptions& options,
                       const PlanTime& time) {
  PlannedRound round;
  std::vector<SequenceView> views;
  RoundView view{.others_wait = time.others_wait};
  if (placements.empty()) return round;
  const Prefills prefills =
      PrefillsOf(placements, policy.urgent_first(), time.now);
  AddPrefills(prefills, options.limits.max_prefill_tokens, view);
  for (const std::unique_ptr<Placement>& placement : placements) {
    if (!placement->in_prefill()) round.sequences.push_back(placement.get());
  }
  std::stable_partition(
      round.sequences.begin(), round.sequences.end(),
      [](const Placement* placement) { return placement->is_followed(); });
  for (Placement* placement : round.sequences) {
    view.kv_tokens += placement->committed();
    round.plan.sequences.push_back(placement->Plan());
    round.trees.push_back(UsableTree(*placement, options));
    views.push_back(ViewOf(*placement, time.now));
  }
  view.sequences = views;
  view.trees = round.trees;
  view.now = std::chrono::duration<double>(time.now.time_since_epoch()).count();
  round.choice = policy.Choose(view);
  round.plan.draft = round.choice.draft;
  round.plan.defers_draft = !round.plan.draft && round.choice.defers_draft;
  PlanChunks(prefills,
             std::min(options.limits.max_prefill_tokens,
                      std::max(round.choice.prefill_tokens, kPrefillGrid)),
             round);
  PlanFollowing(round);
  if (round.trees.empty()) return round;
  PlanForest(options, round);
  PlanLease(options, round);
  PlanTails(round);
  return round;
}

}  // namespace bole
