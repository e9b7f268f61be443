#include "common/step.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace bole {
namespace {

// Slots and pages already taken by a sequence of the plan. Pages may be shared
// as long as nobody writes them.
struct Taken {
  explicit Taken(const StepLimits& limits)
      : slots(limits.num_slots),
        pages(limits.num_pages),
        written_pages(limits.num_pages) {}

  std::vector<bool> slots;
  std::vector<bool> pages;
  std::vector<bool> written_pages;
};

absl::Status Invalid(const std::string& who, const char* field, int value,
                     const std::string& allowed) {
  return absl::InvalidArgumentError(
      absl::StrCat(who, ": ", field, " is ", value, ", not ", allowed));
}

absl::Status CheckRange(const std::string& who, const char* field, int value,
                        int low, int high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return Invalid(who, field, value, absl::StrCat("in [", low, ", ", high, "]"));
}

absl::Status CheckPages(const SequencePlan& sequence, int kv_rows,
                        const StepLimits& limits, const std::string& who,
                        Taken& taken) {
  BOLE_RETURN_IF_ERROR(CheckRange(who, "number of pages",
                                  static_cast<int>(sequence.pages.size()), 0,
                                  limits.MaxPages()));
  const int capacity =
      static_cast<int>(sequence.pages.size()) * limits.page_size;
  if (kv_rows > capacity) {
    return absl::InvalidArgumentError(
        absl::StrCat(who, ": ", sequence.pages.size(), " pages hold ", capacity,
                     " KV rows, ", kv_rows, " are needed"));
  }
  // The drafter's rows of a tail end with that of the pending token.
  const int tail = static_cast<int>(sequence.draft_tail.size());
  const int first_written =
      std::max(sequence.committed - std::max(tail - 1, 0), 0) /
      limits.page_size;
  for (int i = 0; i < static_cast<int>(sequence.pages.size()); ++i) {
    const int page = sequence.pages[i].value();
    BOLE_RETURN_IF_ERROR(
        CheckRange(who, "page", page, 0, limits.num_pages - 1));
    const bool written = i >= first_written;
    if (written ? taken.pages[page] : taken.written_pages[page]) {
      return absl::InvalidArgumentError(absl::StrCat(
          who, ": page ", page, " is written and also used elsewhere"));
    }
    taken.pages[page] = true;
    if (written) taken.written_pages[page] = true;
  }
  return absl::OkStatus();
}

// The drafter sees the tokens of a chunk and grows nothing.
constexpr DraftShape kSeesOnly{.top_k = 1, .depth = 1};

// Tokens or nodes that run for a sequence, how many of them a path has, and
// what the drafter runs for them.
struct Rows {
  int count;
  int path;
  std::optional<DraftShape> draft;
};

absl::Status CheckSequence(const SequencePlan& sequence, const Rows& of,
                           const StepPlan& plan, const StepLimits& limits,
                           const std::string& who, Taken& taken) {
  const auto& [rows, path, draft] = of;
  BOLE_RETURN_IF_ERROR(
      CheckRange(who, "slot", sequence.slot.value(), 0, limits.num_slots - 1));
  if (taken.slots[sequence.slot.value()]) {
    return absl::InvalidArgumentError(
        absl::StrCat(who, ": slot ", sequence.slot.value(), " is used twice"));
  }
  taken.slots[sequence.slot.value()] = true;
  BOLE_RETURN_IF_ERROR(
      CheckRange(who, "committed", sequence.committed, 0, limits.max_context));
  BOLE_RETURN_IF_ERROR(CheckRange(who, "committed + rows",
                                  sequence.committed + rows, 1,
                                  limits.max_context));
  BOLE_RETURN_IF_ERROR(CheckRange(who, "prompt_length", sequence.prompt_length,
                                  1, limits.max_context));
  BOLE_RETURN_IF_ERROR(CheckRange(
      who, "max_new_tokens", sequence.max_new_tokens, 1, limits.max_context));
  const int kv_rows = plan.lease
                          ? limits.LeaseKvRows(sequence, rows, path, plan)
                          : limits.KvRows(sequence.committed, rows, draft);
  BOLE_RETURN_IF_ERROR(CheckPages(sequence, kv_rows, limits, who, taken));
  BOLE_RETURN_IF_ERROR(CheckRange(who, "number of stop tokens",
                                  static_cast<int>(sequence.stop_tokens.size()),
                                  0, kMaxPlanStopTokens));
  if (absl::Status status = Validate(sequence.sampling, limits.vocabulary);
      !status.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(who, ": ", status.message()));
  }
  return absl::OkStatus();
}

absl::Status CheckDraftTail(const SequencePlan& sequence, int most,
                            const StepLimits& limits, const std::string& who) {
  if (sequence.skips_drafter) most = 0;
  BOLE_RETURN_IF_ERROR(CheckRange(who, "length of the draft tail",
                                  static_cast<int>(sequence.draft_tail.size()),
                                  0, most));
  for (const int32_t token : sequence.draft_tail) {
    BOLE_RETURN_IF_ERROR(CheckRange(who, "token of the draft tail", token, 0,
                                    limits.vocabulary - 1));
  }
  return absl::OkStatus();
}

// Whoever skips the drafter comes last.
absl::Status CheckSkips(const SequencePlan& sequence, const std::string& who,
                        bool& others_skip) {
  if (others_skip && !sequence.skips_drafter) {
    return absl::InvalidArgumentError(absl::StrCat(
        who, ": skips_drafter is false, and true of the one before"));
  }
  others_skip = sequence.skips_drafter;
  return absl::OkStatus();
}

absl::Status CheckPrefills(const StepPlan& plan, const StepLimits& limits,
                           Taken& taken) {
  int total = 0;
  bool others_skip = false;
  for (size_t i = 0; i < plan.prefills.size(); ++i) {
    const PrefillPlan& chunk = plan.prefills[i];
    const std::string who = absl::StrCat("prefill ", i);
    BOLE_RETURN_IF_ERROR(CheckSkips(chunk.sequence, who, others_skip));
    BOLE_RETURN_IF_ERROR(CheckRange(who, "number of tokens",
                                    static_cast<int>(chunk.tokens.size()), 1,
                                    limits.max_prefill_tokens - total));
    total += static_cast<int>(chunk.tokens.size());
    for (int32_t token : chunk.tokens) {
      BOLE_RETURN_IF_ERROR(
          CheckRange(who, "token", token, 0, limits.vocabulary - 1));
    }
    const int length = static_cast<int>(chunk.tokens.size());
    const Rows rows{.count = length,
                    .path = length,
                    .draft = plan.defers_draft && !chunk.sequence.skips_drafter
                                 ? kSeesOnly
                                 : plan.draft};
    BOLE_RETURN_IF_ERROR(
        CheckSequence(chunk.sequence, rows, plan, limits, who, taken));
    const int most_tail = std::min(kMaxDraftTail, chunk.sequence.committed);
    BOLE_RETURN_IF_ERROR(
        CheckDraftTail(chunk.sequence, most_tail, limits, who));
    if (chunk.prompt_logprobs) {
      BOLE_RETURN_IF_ERROR(CheckRange(who, "prompt_logprobs",
                                      *chunk.prompt_logprobs, 0,
                                      kMaxRequestedLogprobs));
    }
    const int end =
        chunk.sequence.committed + static_cast<int>(chunk.tokens.size());
    if (chunk.next_token) {
      BOLE_RETURN_IF_ERROR(CheckRange(who, "next_token", *chunk.next_token, 0,
                                      limits.vocabulary - 1));
    } else if (end != chunk.sequence.prompt_length) {
      return Invalid(
          who, "end of the last chunk", end,
          absl::StrCat("prompt_length = ", chunk.sequence.prompt_length));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckForest(const StepPlan& plan, const StepLimits& limits,
                         Taken& taken) {
  const PackedForest& forest = plan.forest;
  BOLE_RETURN_IF_ERROR(
      Validate(forest, {.max_requests = limits.max_requests,
                        .max_nodes = limits.max_nodes,
                        .max_nodes_per_request = limits.max_nodes_per_tree,
                        .vocabulary = limits.vocabulary}));
  BOLE_RETURN_IF_ERROR(CheckRange("forest", "number of requests",
                                  forest.num_requests(),
                                  static_cast<int>(plan.sequences.size()),
                                  static_cast<int>(plan.sequences.size())));
  bool others_skip = false;
  for (int b = 0; b < forest.num_requests(); ++b) {
    const std::string who = absl::StrCat("sequence ", b);
    BOLE_RETURN_IF_ERROR(CheckSkips(plan.sequences[b], who, others_skip));
    const int first = forest.first_node[b];
    const int rows = forest.first_node[b + 1] - first;
    BOLE_RETURN_IF_ERROR(
        CheckRange(who, "number of nodes", rows, 1, limits.max_nodes_per_tree));
    for (int i = 1; i < rows; ++i) {
      if (forest.parent[first + i] != kNoParent) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(who, ": node ", i, " is a second root"));
    }
    BOLE_RETURN_IF_ERROR(CheckRange(
        who, "committed", plan.sequences[b].committed, 1, limits.max_context));
    const int depth = *std::max_element(forest.depth.begin() + first,
                                        forest.depth.begin() + first + rows);
    BOLE_RETURN_IF_ERROR(CheckSequence(plan.sequences[b],
                                       {rows, depth + 1, plan.draft}, plan,
                                       limits, who, taken));
    const int most_tail = std::min(kMaxDraftTail, plan.sequences[b].committed);
    BOLE_RETURN_IF_ERROR(
        CheckDraftTail(plan.sequences[b], most_tail, limits, who));
  }
  return absl::OkStatus();
}

absl::Status CheckLeaseBounds(const Lease& lease, int num_sequences) {
  if (lease.bounds.empty()) return absl::OkStatus();
  BOLE_RETURN_IF_ERROR(CheckRange("lease", "number of bounds",
                                  static_cast<int>(lease.bounds.size()),
                                  num_sequences, num_sequences));
  int floors = 0;
  for (int b = 0; b < num_sequences; ++b) {
    const auto [floor, cap] = lease.bounds[b];
    const std::string who = absl::StrCat("lease: sequence ", b);
    BOLE_RETURN_IF_ERROR(
        CheckRange(who, "cap", cap, 1, lease.max_nodes_per_tree));
    BOLE_RETURN_IF_ERROR(CheckRange(who, "floor", floor, 1, cap));
    floors += floor;
  }
  return CheckRange("lease", "sum of the floors", floors, num_sequences,
                    lease.budget);
}

absl::Status CheckLease(const StepPlan& plan, const StepLimits& limits) {
  if (!plan.lease) return absl::OkStatus();
  const int num_sequences = static_cast<int>(plan.sequences.size());
  BOLE_RETURN_IF_ERROR(CheckRange("lease", "number of sequences", num_sequences,
                                  1, limits.max_requests));
  BOLE_RETURN_IF_ERROR(CheckRange("lease", "number of prefills",
                                  static_cast<int>(plan.prefills.size()), 0,
                                  0));
  BOLE_RETURN_IF_ERROR(CheckRange("lease", "rounds", plan.lease->rounds, 1,
                                  limits.max_lease_rounds));
  BOLE_RETURN_IF_ERROR(CheckRange("lease", "budget", plan.lease->budget,
                                  num_sequences, limits.max_nodes));
  BOLE_RETURN_IF_ERROR(CheckRange("lease", "max_nodes_per_tree",
                                  plan.lease->max_nodes_per_tree, 1,
                                  limits.max_nodes_per_tree));
  if (plan.draft && plan.sequences.back().skips_drafter) {
    return absl::InvalidArgumentError(
        absl::StrCat("lease: sequence ", num_sequences - 1,
                     ": skips_drafter is true, in a lease that drafts"));
  }
  return CheckLeaseBounds(*plan.lease, num_sequences);
}

// Where copies begin and end.
struct CopyPlaces {
  const char* direction;  // "", or " to the host"
  int num_from;
  int num_to;
  bool within = false;  // From and to are numbers of the same places.
};

// `what`: "slot". `written` has what others have copied to, [num_to].
template <typename Copy>
absl::Status CheckCopies(const std::vector<Copy>& copies, const char* what,
                         const CopyPlaces& places, std::vector<bool>& written) {
  for (size_t i = 0; i < copies.size(); ++i) {
    const std::string who =
        absl::StrCat(what, " copy", places.direction, " ", i);
    const int from = copies[i].from.value();
    const int to = copies[i].to.value();
    BOLE_RETURN_IF_ERROR(CheckRange(who, "from", from, 0, places.num_from - 1));
    BOLE_RETURN_IF_ERROR(CheckRange(who, "to", to, 0, places.num_to - 1));
    const bool is_own = places.within && from == to;
    if (is_own || written[to]) {
      return absl::InvalidArgumentError(
          absl::StrCat(who, ": ", what, " ", to, " is ",
                       is_own ? "its own source" : "copied to twice"));
    }
    written[to] = true;
  }
  return absl::OkStatus();
}

// The same in all three directions; `of` says which part of the copies.
template <typename Copy>
absl::Status CheckAllCopies(const StepPlan& plan,
                            std::vector<Copy> MemoryCopies::*of,
                            const char* what, int num, int num_host) {
  const auto size = [](bool needed, int count) { return needed ? count : 0; };
  const auto& to_host = plan.to_host.*of;
  const auto& from_host = plan.from_host.*of;
  const auto& within = plan.copies.*of;
  std::vector<bool> host_written(size(!to_host.empty(), num_host));
  std::vector<bool> written(size(!from_host.empty() || !within.empty(), num));
  BOLE_RETURN_IF_ERROR(CheckCopies(
      to_host, what,
      {.direction = " to the host", .num_from = num, .num_to = num_host},
      host_written));
  BOLE_RETURN_IF_ERROR(CheckCopies(
      from_host, what,
      {.direction = " from the host", .num_from = num_host, .num_to = num},
      written));
  return CheckCopies(
      within, what,
      {.direction = "", .num_from = num, .num_to = num, .within = true},
      written);
}

absl::Status CheckCopies(const StepPlan& plan, const StepLimits& limits) {
  BOLE_RETURN_IF_ERROR(CheckAllCopies(plan, &MemoryCopies::slots, "slot",
                                      limits.num_slots, limits.num_host_slots));
  for (size_t i = 0; i < plan.to_host.slots.size(); ++i) {
    if (!plan.to_host.slots[i].output_to_prompt) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "slot copy to the host ", i,
        ": output_to_prompt is true, and nobody goes on from there"));
  }
  return CheckAllCopies(plan, &MemoryCopies::pages, "page", limits.num_pages,
                        limits.num_host_pages);
}

absl::Status CheckDraft(const StepPlan& plan, const StepLimits& limits) {
  if (!plan.draft) return absl::OkStatus();
  if (plan.defers_draft) {
    return absl::InvalidArgumentError(
        "plan: there is a draft, and defers_draft is true");
  }
  BOLE_RETURN_IF_ERROR(CheckRange("draft", "top_k", plan.draft->top_k, 1,
                                  limits.max_draft.top_k));
  return CheckRange("draft", "depth", plan.draft->depth, 1,
                    limits.max_draft.depth);
}

}  // namespace

// A sequence that runs in the last round has emitted less than its
// max_new_tokens before; its lanes of the drafter lie beyond whatever it has
// committed at the end.
int StepLimits::LeaseKvRows(const SequencePlan& sequence, int rows, int path,
                            const StepPlan& plan) const {
  const int64_t later_path = plan.draft ? plan.draft->depth + 1 : 1;
  const int64_t most = sequence.max_new_tokens;
  const int rounds = plan.lease->rounds;
  const int64_t before_last =
      sequence.committed +
      std::min(rounds < 2 ? 0 : path + (rounds - 2) * later_path, most - 1);
  const int64_t end =
      sequence.committed + std::min(path + (rounds - 1) * later_path, most);
  const int64_t last_rows =
      rounds < 2 ? 0 : before_last + plan.lease->max_nodes_per_tree;
  const int64_t needed = std::max({int64_t{sequence.committed} + rows,
                                   std::min<int64_t>(last_rows, max_context),
                                   std::min<int64_t>(end, max_context)});
  return KvRows(static_cast<int>(needed), 0, plan.draft);
}

absl::Status Validate(const StepPlan& plan, const StepLimits& limits) {
  BOLE_RETURN_IF_ERROR(CheckDraft(plan, limits));
  BOLE_RETURN_IF_ERROR(CheckCopies(plan, limits));
  BOLE_RETURN_IF_ERROR(CheckRange("plan", "number of prefills",
                                  static_cast<int>(plan.prefills.size()), 0,
                                  limits.max_requests));
  BOLE_RETURN_IF_ERROR(CheckLease(plan, limits));
  Taken taken(limits);
  BOLE_RETURN_IF_ERROR(CheckPrefills(plan, limits, taken));
  return CheckForest(plan, limits, taken);
}

}  // namespace bole
