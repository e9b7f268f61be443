#include "worker_service/calibration/combinations.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace bole {
namespace {

// The sizes that a CalibrationSize measures.
struct Extent {
  int short_length;
  int long_length;
  int long_slots;
  int request_factor;  // Ratio of one number of requests to the previous one.
  int max_rows;        // The most rows in a forest.
  std::vector<DraftShape> drafts;
  std::vector<int> tree_nodes;  // Of trees of the largest shape of `drafts`.
  std::vector<int> tails;       // Tail tokens of each request.
  std::vector<int> chunks;
  int num_held_out;
};

const Extent& ExtentOf(CalibrationSize size) {
  static const Extent coarse = {.short_length = 64,
                                .long_length = 384,
                                .long_slots = 4,
                                .request_factor = 4,
                                .max_rows = 160,
                                .drafts = {{1, 3}, {1, 8}, {4, 4}, {4, 8}},
                                .tree_nodes = {16, 32, 64},
                                .tails = {4, 16},
                                .chunks = {8, 64, 256, 512},
                                .num_held_out = 12};
  static const Extent full = {
      .short_length = 128,
      .long_length = 4096,
      .long_slots = 1 << 20,
      .request_factor = 2,
      .max_rows = 1 << 20,
      .drafts = {{1, 1}, {1, 3}, {1, 5}, {1, 8}, {2, 4}, {4, 4}, {4, 8}},
      .tree_nodes = {4, 8, 12, 16, 24, 32, 48, 64, 96, 128},
      .tails = {1, 4, 16, kMaxDraftTail},
      .chunks = {1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048},
      .num_held_out = 40};
  return size == CalibrationSize::kCoarse ? coarse : full;
}

// The most KV rows that a round of any kind needs beyond the committed tokens
// of one of its requests, not counting chunks.
int SlackOf(const StepLimits& limits) {
  return limits.max_nodes_per_tree + limits.max_draft.num_kv_rows() +
         limits.max_lease_rounds * (limits.max_draft.depth + 1);
}

class Collector {
 public:
  Collector(const StepLimits& limits, bool has_drafter, const Extent& extent,
            const CalibrationLayout& layout)
      : limits_(limits),
        has_drafter_(has_drafter),
        extent_(extent),
        layout_(layout) {
    const int most = MostRequests(/*with_chunk=*/false);
    for (int requests = 1; requests < most; requests *= extent.request_factor) {
      requests_.push_back(requests);
    }
    requests_.push_back(most);
  }

  std::vector<Combination> Collect() {
    AddPlain();
    AddDrafts();
    AddTrees();
    AddLeases();
    AddTails();
    AddChunks();
    AddHeldOut();
    AddHeldOutTails();
    return std::move(all_);
  }

 private:
  int MostRequests(bool with_chunk) const {
    return std::min(limits_.max_requests, layout_.slots - (with_chunk ? 1 : 0));
  }
  // The short length, and the longest length that all of the first `requests`
  // slots reach.
  std::vector<int> LengthsOf(int requests) const {
    int longest = layout_.long_length;
    for (int slot = 0; slot < requests; ++slot) {
      longest = std::min(longest, layout_.LengthOf(slot));
    }
    return {layout_.short_length, longest};
  }
  DraftShape Clamped(DraftShape shape) const {
    return {.top_k = std::min(shape.top_k, limits_.max_draft.top_k),
            .depth = std::min(shape.depth, limits_.max_draft.depth)};
  }
  int MostNodes(int requests, const DraftShape& shape) const {
    return std::min({limits_.max_nodes_per_tree, shape.num_candidates() + 1,
                     std::min(limits_.max_nodes, extent_.max_rows) / requests});
  }

  // Adds the combination unless it has been added before, it needs a drafter
  // that the worker lacks, or there are kMaxCombinations already.
  void Add(const Combination& combination) {
    const bool speculates = combination.draft.has_value();
    if (speculates && !has_drafter_) return;
    if (std::ssize(all_) == kMaxCombinations) return;
    Combination fitted = combination;
    fitted.held_out = false;
    if (std::find(all_.begin(), all_.end(), fitted) == all_.end()) {
      all_.push_back(combination);
    }
  }

  void AddPlain() {
    for (const int requests : requests_) {
      for (const int length : LengthsOf(requests)) {
        Add({.requests = requests, .committed = length});
      }
    }
  }

  void AddDrafts() {
    for (const int requests : requests_) {
      for (const DraftShape& shape : extent_.drafts) {
        Add({.requests = requests,
             .committed = layout_.short_length,
             .draft = Clamped(shape)});
      }
    }
  }

  void AddTree(int requests, int length, const DraftShape& shape, int nodes) {
    if (nodes > MostNodes(requests, shape) || nodes < 2) return;
    Add({.requests = requests,
         .committed = length,
         .nodes_per_tree = nodes,
         .draft = shape});
  }

  void AddTrees() {
    const DraftShape largest = Clamped(extent_.drafts.back());
    for (const int requests : requests_) {
      const std::vector<int> lengths = LengthsOf(requests);
      for (const DraftShape& draft : extent_.drafts) {
        const DraftShape shape = Clamped(draft);
        if (shape.top_k > 1) continue;
        AddTree(requests, lengths.front(), shape, shape.depth + 1);
      }
      for (const int nodes : extent_.tree_nodes) {
        AddTree(requests, lengths.front(), largest, nodes);
      }
      const int usual = MostNodes(requests, largest);
      AddTree(requests, lengths.front(), largest, usual);
      AddTree(requests, lengths.back(), largest, std::min(usual, 32));
    }
  }

  void AddLeases() {
    const int rounds = std::min(limits_.max_lease_rounds, 6);
    if (rounds < 2) return;
    const DraftShape largest = Clamped(extent_.drafts.back());
    for (const int requests : requests_) {
      Add({.requests = requests,
           .committed = layout_.short_length,
           .rounds = rounds});
      const int most = MostNodes(requests, largest);
      for (const int nodes : {std::min(most, 16), most}) {
        if (nodes < 2) continue;
        Add({.requests = requests,
             .committed = layout_.short_length,
             .nodes_per_tree = nodes,
             .draft = largest,
             .rounds = rounds});
      }
    }
  }

  void AddTails() {
    const DraftShape shape = Clamped({.top_k = 1, .depth = 3});
    for (const int requests : requests_) {
      if (requests > layout_.tail_requests) break;
      for (const int tail : extent_.tails) {
        if (tail > layout_.most_tail) break;
        Add({.requests = requests,
             .committed = layout_.tail_length,
             .draft = shape,
             .draft_tail = tail});
      }
    }
  }

  void AddChunks() {
    const int most = std::min(limits_.max_prefill_tokens, layout_.room);
    std::vector<int> chunks = extent_.chunks;
    chunks.push_back(most);
    for (const int chunk : chunks) {
      if (chunk > most) continue;
      const int before = std::min(layout_.long_length, layout_.room - chunk);
      Add({.chunk = chunk});
      Add({.chunk = chunk, .chunk_committed = before});
      AddMixed(chunk, before);
    }
  }

  // Adds rounds with a chunk and a forest. The chunk follows `before` committed
  // tokens, or none.
  void AddMixed(int chunk, int before) {
    const int requests = std::min(4, MostRequests(/*with_chunk=*/true));
    if (requests < 1) return;
    Add({.requests = 1, .committed = layout_.short_length, .chunk = chunk});
    Add({.requests = requests,
         .committed = layout_.short_length,
         .chunk = chunk,
         .chunk_committed = before});
    const DraftShape largest = Clamped(extent_.drafts.back());
    const int nodes = std::min(8, MostNodes(requests, largest));
    if (nodes < 2) return;
    Add({.requests = requests,
         .committed = layout_.short_length,
         .nodes_per_tree = nodes,
         .draft = largest,
         .chunk = chunk});
  }

  int Uniform(int low, int high) {
    return std::uniform_int_distribution(low, std::max(low, high))(rng_);
  }

  // Draws from a log-uniform distribution: small magnitudes are as likely as
  // large ones.
  int LogUniform(int low, int high) {
    const double share = std::uniform_real_distribution<double>()(rng_);
    return std::clamp(
        static_cast<int>(low * std::pow(double{1} * high / low, share) + 0.5),
        low, std::max(low, high));
  }

  void AddHeldOut() {
    for (int i = 0; i < extent_.num_held_out; ++i) {
      const bool with_chunk = i % 4 == 0;
      Combination next{.held_out = true};
      if (with_chunk) {
        next.chunk_committed = Uniform(0, layout_.long_length - 1);
        next.chunk =
            LogUniform(1, std::min(limits_.max_prefill_tokens,
                                   layout_.room - next.chunk_committed));
      }
      const int most = MostRequests(with_chunk);
      if (most > 0 && !(with_chunk && i % 8 == 0)) AddForestTo(next, most);
      if (next.requests > 0 || next.chunk > 0) Add(next);
    }
  }

  void AddHeldOutTails() {
    if (layout_.most_tail == 0) return;
    for (int i = 0; i < extent_.num_held_out / 10; ++i) {
      Add({.requests = LogUniform(1, layout_.tail_requests),
           .committed = layout_.tail_length,
           .draft = Clamped({.top_k = Uniform(1, limits_.max_draft.top_k),
                             .depth = Uniform(1, limits_.max_draft.depth)}),
           .draft_tail = LogUniform(1, layout_.most_tail),
           .held_out = true});
    }
  }

  void AddForestTo(Combination& next, int most_requests) {
    next.requests =
        LogUniform(1, std::min(most_requests, extent_.max_rows / 2));
    next.committed = Uniform(1, LengthsOf(next.requests).back());
    if (!has_drafter_ || Uniform(0, 4) == 0) return;
    next.draft = Clamped({.top_k = Uniform(1, limits_.max_draft.top_k),
                          .depth = Uniform(1, limits_.max_draft.depth)});
    const int most = MostNodes(next.requests, *next.draft);
    if (most >= 2) next.nodes_per_tree = LogUniform(2, most);
  }

  const StepLimits& limits_;
  const bool has_drafter_;
  const Extent& extent_;
  const CalibrationLayout& layout_;
  std::vector<int> requests_;
  std::mt19937 rng_{20'240'917};
  std::vector<Combination> all_;
};

}  // namespace

absl::StatusOr<CalibrationLayout> LayoutOf(const StepLimits& limits,
                                           CalibrationSize size) {
  const Extent& extent = ExtentOf(size);
  CalibrationLayout layout;
  // One slot more than a forest needs, for a chunk in the same round.
  for (layout.slots = std::min(limits.num_slots, limits.max_requests + 1);
       layout.slots > 0; --layout.slots) {
    layout.pages_per_slot =
        std::min(limits.num_pages / layout.slots, limits.MaxPages());
    layout.room =
        std::min(layout.pages_per_slot * limits.page_size, limits.max_context) -
        SlackOf(limits);
    if (layout.room >= (layout.slots > 1 ? extent.short_length : 2)) break;
  }
  if (layout.slots == 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the worker is too small to be calibrated: a round may need ",
        SlackOf(limits), " positions beyond a request's text, the context has ",
        limits.max_context, ", and there are ", limits.num_pages, " pages of ",
        limits.page_size, " tokens"));
  }
  layout.long_slots = std::min(extent.long_slots, layout.slots);
  // Leaves room for a chunk of at least one token after a long text.
  layout.long_length = std::min(extent.long_length, layout.room - 1);
  layout.short_length = std::min(extent.short_length, layout.long_length);
  layout.tail_length =
      std::min(layout.long_length, layout.short_length + extent.tails.back());
  layout.tail_requests = std::min(layout.long_slots, limits.max_requests);
  layout.most_tail = layout.tail_length - layout.short_length;
  return layout;
}

std::vector<Combination> CombinationsOf(const StepLimits& limits,
                                        bool has_drafter, CalibrationSize size,
                                        const CalibrationLayout& layout) {
  return Collector(limits, has_drafter, ExtentOf(size), layout).Collect();
}

}  // namespace bole
