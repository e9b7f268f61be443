// The contract between the scheduler and a worker: one plan, one result.
#ifndef BOLE_COMMON_STEP_H_
#define BOLE_COMMON_STEP_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "common/draft_shape.h"
#include "common/ids.h"
#include "common/memory_copies.h"
#include "common/packed_forest.h"
#include "common/proposal_tree.h"
#include "common/sampling_params.h"

namespace bole {

// What a step needs to know about a sequence. The worker remembers nothing of
// earlier plans except the bytes in its slots and pages.
struct SequencePlan {
  SlotId slot{0};
  int32_t committed = 0;  // Tokens whose state and KV are final.
  // Page i holds the keys and values of positions i * page_size .. (i + 1) *
  // page_size - 1: the target's, and the drafter's of the pair of that
  // position's token and the hidden vector before it. All of them depend only
  // on the tokens up to their position, so sequences that begin alike may share
  // the pages of what they have in common.
  std::vector<PageId> pages = {};
  SamplingParams sampling = {};
  std::vector<int32_t> stop_tokens = {};  // The request's, and the model's
                                          // unless they are ignored.
  int32_t prompt_length = 0;   // Tokens at later positions are output.
  int32_t max_new_tokens = 1;  // The most to emit in this step; >= 1.
  // The n tokens at positions committed - n + 1 .. committed, of which the last
  // is the pending one: those that the drafter has not seen, because the plans
  // that committed the ones before them deferred it (StepPlan::defers_draft),
  // or because the sequence continues from a checkpoint: then at least the
  // pending one. The drafter sees them before the round, and writes its entries
  // for their positions. At most kMaxDraftTail, and no more than `committed`.
  // For a chunk, its own first token is the pending one.
  std::vector<int32_t> draft_tail = {};
  // Neither this plan nor any later one drafts for the sequence, and so the
  // drafter need not see its tokens. It has no draft tail and gets no proposal,
  // and it comes after those that do not skip.
  bool skips_drafter = false;
};

// For how many of its last committed tokens a slot keeps hidden vectors, for a
// drafter that has not seen them.
inline constexpr int kMaxDraftTail = 64;

// Prefill chunks that start and end at multiples of this position (or at the
// prompt's end) leave the same bits as the whole prompt at once.
inline constexpr int kPrefillGrid = 64;

// Tokens to run through the model and commit without choosing among them.
struct PrefillPlan {
  SequencePlan sequence = {};
  std::vector<int32_t> tokens =
      {};  // At positions committed, committed + 1, ...
  // The token that follows, if it is known: then this chunk emits nothing.
  // Without it the chunk ends the prompt, and the next token is drawn.
  std::optional<int32_t> next_token = {};
  // Report log probabilities of the prompt's tokens that follow these, and of
  // this many likeliest tokens at the same places; 0 .. kMaxRequestedLogprobs.
  std::optional<int32_t> prompt_logprobs = {};

  // How many tokens of the chunk are followed by another token of the prompt.
  // They are the chunk's first ones; only the prompt's last token is not.
  int NumPromptFollowers() const {
    const int last = sequence.prompt_length - 1;
    return std::clamp(last - sequence.committed, 0,
                      static_cast<int>(tokens.size()));
  }
  // The token after the chunk's i-th. REQUIRES: i < NumPromptFollowers(), and
  // Validate() held.
  int32_t Follower(int i) const {
    return i + 1 < std::ssize(tokens) ? tokens[i + 1] : *next_token;
  }
};

// More rounds after the planned one, which the worker runs back to back: it
// chooses each forest from the last round's proposals, as SelectNodes() does on
// trees that TrimTree() has cut to the positions and tokens that are left.
// Without a draft the forests are lone roots. A sequence that emits a stop
// token or its max_new_tokens-th one has no nodes from then on.
struct Lease {
  int rounds = 1;              // The planned one included.
  int budget = 0;              // Nodes of each further forest.
  int max_nodes_per_tree = 1;  // The same: no cap is higher.
  // Entry b bounds the tree of sequence b. The sum of the floors is at most
  // `budget`. Empty: no floors, and every cap is max_nodes_per_tree.
  std::vector<TreeBounds> bounds = {};

  friend bool operator==(const Lease&, const Lease&) = default;
};
inline constexpr int kMaxLeaseRounds = 8;

// One round of a worker: some prefill chunks, and a forest to verify.
struct StepPlan {
  // Copies that run before everything else of the plan, in this order: from
  // slots and pages to places of the worker's host memory, which have numbers
  // of their own; from those places to slots and pages; and within the device.
  MemoryCopies to_host = {};
  MemoryCopies from_host = {};
  MemoryCopies copies = {};
  std::vector<PrefillPlan> prefills = {};
  std::vector<SequencePlan> sequences = {};
  PackedForest forest =
      {};  // Request b is sequences[b]; one root each, its pending
           // token. A forest of lone roots is plain decoding.
  // Propose trees for the next round, for sequences that do not skip the
  // drafter. A lease that drafts has only such sequences.
  std::optional<DraftShape> draft = {};
  // Allowed only without a draft: a later plan may draft again. The drafter
  // still sees the chunks of prompts; for the tokens that the forest commits,
  // their slots keep what it needs to see them later
  // (SequencePlan::draft_tail).
  bool defers_draft = false;
  // Allowed only without prefills. max_new_tokens counts over all rounds.
  std::optional<Lease> lease = {};
};

struct TokenLogprob {
  int32_t token;
  float logprob;

  friend bool operator==(const TokenLogprob&, const TokenLogprob&) = default;
};

// A token that became output, or one of the prompt.
struct EmittedToken {
  int32_t token;
  float logprob;  // In the model's distribution, unfiltered.
  // The likeliest tokens at this position, best first; the request says how
  // many.
  std::vector<TokenLogprob> top;

  friend bool operator==(const EmittedToken&, const EmittedToken&) = default;
};

// The result of a sequence in a step. The last emitted token is pending: it is
// the root of the next tree, and neither state nor KV contains it yet.
struct SequenceResult {
  int32_t committed = 0;              // Grown by the chunk or accepted path.
  std::vector<EmittedToken> emitted;  // Empty for a chunk that ends nothing.
  int32_t accepted_drafts = 0;        // Emitted tokens that the tree proposed.
  // In the rounds >= 1 of a lease that drafts: how many accepted drafts were
  // expected, the sum of rho over the nodes that the worker chose, without the
  // root. The scheduler knows it for the nodes that it chose itself.
  std::optional<float> promised_drafts = {};
  std::optional<ProposalTree> proposal;  // Root: the pending token.
  // Set: the sequence failed, because the model's logits at this position are
  // not numbers. `emitted` has the tokens before it, all of them drafted, and
  // may be empty; the contents of slot and pages are undefined, there is no
  // proposal, and later rounds of a lease have no nodes for the sequence.
  std::optional<int32_t> bad_logits_position = {};
  // If requested: the chunk's NumPromptFollowers() followers, with -inf for one
  // that the model finds impossible. The sequence then also fails if the logits
  // that they come from are not numbers, and a chunk that fails has none of
  // them and emits nothing.
  std::vector<EmittedToken> prompt_logprobs = {};

  friend bool operator==(const SequenceResult&,
                         const SequenceResult&) = default;
};

struct StepResult {
  std::vector<SequenceResult> prefills;   // As StepPlan::prefills.
  std::vector<SequenceResult> sequences;  // As StepPlan::sequences.
  // A lease has a result for each round, and proposals with the last one.
  int round = 0;
  bool is_last = true;
  std::optional<PackedForest> forest = {};  // What a round >= 1 verified.

  friend bool operator==(const StepResult&, const StepResult&) = default;
};

// Receives the results of a plan as they arrive, one for each round.
using OnRound = std::function<void(StepResult result)>;

// The model's stop tokens come on top of a request's.
inline constexpr size_t kMaxPlanStopTokens = kMaxStopTokens + 16;

// The limits of one worker. Fixed at its start, and reported to the scheduler.
struct StepLimits {
  int max_requests = 0;        // Sequences, and prefill chunks, in one plan.
  int max_nodes = 0;           // Nodes of the forest.
  int max_nodes_per_tree = 0;  // At most 128.
  int max_prefill_tokens = 0;  // Tokens of all chunks together.
  DraftShape max_draft;
  int num_slots = 0;
  int num_pages = 0;
  int num_host_slots = 0;    // Places of host memory for slots.
  int num_host_pages = 0;    // Places of host memory for pages.
  int page_size = 0;         // Tokens.
  int max_context = 0;       // Positions.
  int vocabulary = 0;        // Tokens are 0 .. vocabulary - 1.
  int max_lease_rounds = 1;  // At most kMaxLeaseRounds.

  // KV rows of a sequence that `rows` tokens or nodes run for: the committed
  // ones, the rows themselves, then the drafter's.
  int KvRows(int committed, int rows,
             const std::optional<DraftShape>& draft) const {
    return committed + rows + (draft ? draft->num_kv_rows() : 0);
  }
  // The same for all rounds of a lease. The planned tree has `rows` nodes and
  // paths of at most `path` of them.
  int LeaseKvRows(const SequencePlan& sequence, int rows, int path,
                  const StepPlan& plan) const;
  // Pages that one sequence may have: those of a full context.
  int MaxPages() const {
    return (KvRows(max_context, 0, max_draft) + page_size - 1) / page_size;
  }
};

// INVALID_ARGUMENT, naming the sequence, field and value, unless the worker can
// run the plan: numbers in range, a page for every KV row that may be written
// and no more than MaxPages(), no slot used twice, no written page used
// elsewhere, one root per tree.
// COST: O(nodes + pages of the plan), and a bit for each page of the worker.
absl::Status Validate(const StepPlan& plan, const StepLimits& limits);

}  // namespace bole

#endif  // BOLE_COMMON_STEP_H_
