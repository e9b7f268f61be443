#include "worker_service/engine/round_shape.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <set>
#include <utility>

#include "common/draft_shape.h"
#include "common/proposal_tree.h"

namespace bole {
namespace {

int MaskWords(int nodes_per_tree) { return (nodes_per_tree + 31) / 32; }

// The bucket for the rows of all paths, none of which is longer than
// shape.max_path.
int PathRows(const RoundShape& shape) {
  return RowBucket(static_cast<int>(std::min<int64_t>(
                       shape.rows, int64_t{shape.requests} * shape.max_path)),
                   shape.rows);
}

// Collects the shapes of a profile, leaving out those whose graphs are all
// needed by earlier shapes.
class ShapeList {
 public:
  ShapeList(const RoundProfile& profile, const EngineOptions& options)
      : profile_(profile),
        options_(options),
        nodes_per_tree_(profile.drafts.empty() ? 1 : profile.nodes_per_tree) {}

  // Adds rounds whose trees are single roots.
  void AddDecodes() {
    for (const int requests : RequestBuckets(options_.max_requests)) {
      Add({.is_decode = true,
           .requests = requests,
           .rows = requests,
           .mask_words = 1,
           .path_rows = 0});
    }
  }
  // Adds trees with the usual number of nodes for each request.
  void AddUsualTrees() {
    const int nodes = std::min(nodes_per_tree_, kDefaultTreeNodes);
    if (nodes == 1) return;
    for (int count = 1; count <= options_.max_requests; ++count) {
      const int64_t rows =
          std::min<int64_t>(int64_t{count} * nodes, options_.max_nodes);
      AddTrees(count, RowBucket(static_cast<int>(rows), options_.max_nodes),
               MaskWords(nodes));
    }
  }
  void AddOtherTrees() {
    if (nodes_per_tree_ == 1) return;
    for (int count = 1; count <= options_.max_requests; ++count) {
      for (const int rows : RowBuckets(options_.max_nodes)) {
        for (int words = 1; words <= MaskWords(nodes_per_tree_); ++words) {
          if (CanHave(count, rows, words)) AddTrees(count, rows, words);
        }
      }
    }
  }
  std::vector<RoundShape> shapes() { return std::move(shapes_); }

 private:
  // Whether `count` trees, the largest of which needs `words` words of a mask,
  // can have a total number of nodes whose bucket is `rows`.
  bool CanHave(int count, int rows, int words) const {
    const int largest = std::min(32 * words, nodes_per_tree_);
    const int fewest = std::max(count + 1, 32 * (words - 1) + count);
    const int64_t most =
        std::min<int64_t>(int64_t{largest} * count, options_.max_nodes);
    return fewest <= most && RowBucket(fewest, options_.max_nodes) <= rows &&
           rows <= RowBucket(static_cast<int>(most), options_.max_nodes);
  }
  void AddTrees(int count, int rows, int words) {
    Add({.is_decode = false,
         .requests = RequestBucket(count, options_.max_requests),
         .rows = rows,
         .mask_words = words,
         .path_rows = 0});
  }
  // Adds the shape with every draft that may follow.
  void Add(RoundShape shape) {
    shape.max_path = options_.max_draft.depth + 1;
    shape.path_rows = PathRows(shape);
    if (!added_.insert(shape.Key(GraphPart::kForward)).second) return;
    for (const DraftShape& draft : profile_.drafts) {
      shape.draft = draft;
      AddIfNew(shape);
    }
    shape.draft.reset();
    shape.defers_draft = profile_.defers;
    AddIfNew(shape);
  }
  void AddIfNew(const RoundShape& shape) {
    bool is_new = false;
    for (const GraphKey& key : KeysOf(shape, options_)) {
      is_new = seen_.insert(key).second || is_new;
    }
    if (is_new) shapes_.push_back(shape);
  }

  const RoundProfile& profile_;
  const EngineOptions& options_;
  const int nodes_per_tree_;
  std::vector<RoundShape> shapes_;
  std::set<GraphKey> added_;  // Keys of forward passes.
  std::set<GraphKey> seen_;
};

// The most nodes that a tree of a later round can have.
int MostNodesOf(const Lease& lease, const std::optional<DraftShape>& draft) {
  if (!draft) return 1;
  int most = std::min(
      {lease.max_nodes_per_tree, lease.budget, 1 + draft->num_candidates()});
  if (lease.bounds.empty()) return most;
  int cap = 1;
  for (const TreeBounds& bounds : lease.bounds) cap = std::max(cap, bounds.cap);
  return std::min(most, cap);
}

}  // namespace

int RequestBucket(int count, int max) {
  return std::min(
      max, static_cast<int>(std::bit_ceil(static_cast<unsigned>(count))));
}

int RowBucket(int count, int max) {
  const int power =
      static_cast<int>(std::bit_ceil(static_cast<unsigned>(count)));
  if (power <= 64) return std::min(max, power);
  if (power > 256) return std::min(max, (count + 127) / 128 * 128);
  const int between = power / 4 * 3;
  return std::min(max, count <= between ? between : power);
}

std::vector<int> RequestBuckets(int max) {
  std::vector<int> buckets;
  for (int count = 1; count <= max; count = buckets.back() + 1) {
    buckets.push_back(RequestBucket(count, max));
  }
  return buckets;
}

std::vector<int> RowBuckets(int max) {
  std::vector<int> buckets;
  for (int count = 1; count <= max; count = buckets.back() + 1) {
    buckets.push_back(RowBucket(count, max));
  }
  return buckets;
}

// For the same number of requests, the engine binds a round's arrays so that
// a draft finds what it needs in the same place, whatever was verified
// (Engine::BindRound). So the key of a draft has neither `rows` nor
// `mask_words`.
GraphKey RoundShape::Key(GraphPart part) const {
  if (part == GraphPart::kDraft) {
    return {2 * static_cast<int>(part) + (defers_draft ? 1 : 0), requests,
            path_rows, draft ? draft->top_k : 0, draft ? draft->depth : 0};
  }
  return {2 * static_cast<int>(part) + (is_decode ? 1 : 0), requests, rows,
          mask_words, max_path};
}

RoundShape ShapeOf(const StepPlan& plan, const EngineOptions& options) {
  const PackedForest& forest = plan.forest;
  const int num_requests = forest.num_requests();
  RoundShape shape{
      .is_decode = forest.num_nodes() == num_requests,
      .requests = RequestBucket(num_requests, options.max_requests),
      .rows = 0,
      .mask_words = forest.mask_words,
      .path_rows = 0,
      .draft = plan.draft,
      .defers_draft = plan.defers_draft,
      .has_chunks = !plan.prefills.empty()};
  int num_rows = forest.num_nodes();
  if (plan.lease) {
    const int most = MostNodesOf(*plan.lease, plan.draft);
    shape.is_decode = shape.is_decode && most == 1;
    shape.max_nodes_per_tree = most;
    shape.mask_words = std::max(shape.mask_words, MaskWords(most));
    num_rows = std::max(num_rows,
                        std::min<int>(plan.lease->budget, num_requests * most));
  }
  shape.rows =
      shape.is_decode ? shape.requests : RowBucket(num_rows, options.max_nodes);
  // A path is no longer than its tree is deep.
  const int depth = *std::max_element(forest.depth.begin(), forest.depth.end());
  const int usual = options.max_draft.depth;
  shape.max_path = depth <= usual ? usual + 1 : shape.rows;
  shape.path_rows = PathRows(shape);
  return shape;
}

RoundProfile UsualProfile(const EngineOptions& options, bool has_drafter) {
  if (!has_drafter) return {};
  RoundProfile profile{.drafts = {options.max_draft},
                       .defers = true,
                       .nodes_per_tree = options.max_nodes_per_tree};
  for (const int depth : {3, 5, 8}) {
    const DraftShape chain{.top_k = 1, .depth = depth};
    if (depth <= options.max_draft.depth && chain != options.max_draft) {
      profile.drafts.push_back(chain);
    }
  }
  return profile;
}

std::vector<RoundShape> ReachableShapes(const RoundProfile& profile,
                                        const EngineOptions& options) {
  ShapeList shapes(profile, options);
  shapes.AddUsualTrees();
  shapes.AddDecodes();
  shapes.AddOtherTrees();
  return shapes.shapes();
}

std::vector<GraphKey> KeysOf(const RoundShape& shape,
                             const EngineOptions& options) {
  using enum GraphPart;
  std::vector<GraphKey> keys;
  if (options.time_phases) {
    keys = {shape.Key(kForward), shape.Key(kAccept)};
  } else {
    keys = {shape.Key(kVerify)};
  }
  if (shape.ends_with_draft()) keys.push_back(shape.Key(kDraft));
  return keys;
}

int GraphCapacity(const EngineOptions& options, bool has_drafter) {
  std::set<GraphKey> keys;
  for (const RoundShape& shape :
       ReachableShapes(UsualProfile(options, has_drafter), options)) {
    for (const GraphKey& key : KeysOf(shape, options)) keys.insert(key);
  }
  return static_cast<int>(keys.size());
}

}  // namespace bole
