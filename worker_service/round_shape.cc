#include "worker_service/round_shape.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <set>
#include <utility>

#include "common/draft_shape.h"

namespace bole {
namespace {

int MaskWords(int nodes_per_tree) { return (nodes_per_tree + 31) / 32; }

// A path is no longer than shape.max_path.
int PathRows(const RoundShape& shape) {
  return RowBucket(static_cast<int>(std::min<int64_t>(
                       shape.rows, int64_t{shape.requests} * shape.max_path)),
                   shape.rows);
}

// Collects shapes of a profile, each once.
class ShapeList {
 public:
  ShapeList(const RoundProfile& profile, const EngineOptions& options)
      : profile_(profile),
        options_(options),
        nodes_per_tree_(profile.draft ? profile.nodes_per_tree : 1) {}

  // Leases of any number of requests: their rounds have room for all nodes.
  void AddLeases() {
    if (options_.max_lease_rounds < 2) return;
    for (int count = 1; count <= options_.max_requests; ++count) {
      Add({.is_decode = nodes_per_tree_ == 1,
           .requests = RequestsOf(count),
           .rows = FullRows(count),
           .mask_words = MaskWords(nodes_per_tree_),
           .path_rows = 0,
           .max_nodes_per_tree = nodes_per_tree_});
    }
  }
  // Lone roots.
  void AddDecodes() {
    for (const int requests : RequestBuckets(options_.max_requests)) {
      Add({.is_decode = true,
           .requests = requests,
           .rows = requests,
           .mask_words = 1,
           .path_rows = 0});
    }
  }
  void AddFullTrees() {
    if (nodes_per_tree_ == 1) return;
    for (int count = 1; count <= options_.max_requests; ++count) {
      AddTrees(count, FullRows(count), MaskWords(nodes_per_tree_));
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
  int RequestsOf(int count) const {
    return RequestBucket(count, options_.max_requests);
  }
  int FullRows(int count) const {
    const int64_t nodes = int64_t{count} * nodes_per_tree_;
    return nodes_per_tree_ == 1 ? RequestsOf(count)
                                : RowBucket(static_cast<int>(std::min<int64_t>(
                                                nodes, options_.max_nodes)),
                                            options_.max_nodes);
  }
  // Whether so many trees can have a number of nodes together that `rows` is
  // the bucket of, if the largest of them needs so many words of a mask.
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
         .requests = RequestsOf(count),
         .rows = rows,
         .mask_words = words,
         .path_rows = 0});
  }
  void Add(RoundShape shape) {
    shape.draft = profile_.draft;
    shape.max_path = options_.max_draft.depth + 1;
    shape.path_rows = PathRows(shape);
    std::pair key(shape.Key(GraphPart::kNextRound), shape.max_nodes_per_tree);
    if (seen_.insert(std::move(key)).second) shapes_.push_back(shape);
  }

  const RoundProfile& profile_;
  const EngineOptions& options_;
  const int nodes_per_tree_;
  std::vector<RoundShape> shapes_;
  std::set<std::pair<GraphKey, int>> seen_;
};

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

// Only the choice of a forest depends on max_nodes_per_tree.
GraphKey RoundShape::Key(GraphPart part) const {
  const bool chooses =
      part == GraphPart::kNextRound || part == GraphPart::kNextForward;
  return {
      4 * static_cast<int>(part) + (defers_draft ? 2 : 0) + (is_decode ? 1 : 0),
      requests,
      rows,
      mask_words,
      max_path,
      path_rows,
      draft ? draft->top_k : 0,
      draft ? draft->depth : 0,
      chooses ? max_nodes_per_tree : 0};
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
    const int most = plan.draft ? plan.lease->max_nodes_per_tree : 1;
    shape.is_decode = shape.is_decode && most == 1;
    shape.max_nodes_per_tree = most;
    shape.mask_words = std::max(shape.mask_words, (most + 31) / 32);
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
  return {.draft = options.max_draft,
          .nodes_per_tree =
              std::min(kDefaultTreeNodes, options.max_nodes_per_tree)};
}

std::vector<RoundShape> ReachableShapes(const RoundProfile& profile,
                                        const EngineOptions& options) {
  ShapeList shapes(profile, options);
  shapes.AddLeases();
  shapes.AddDecodes();
  shapes.AddFullTrees();
  shapes.AddOtherTrees();
  return shapes.shapes();
}

int NumGraphs(const std::vector<RoundShape>& shapes,
              const EngineOptions& options) {
  using enum GraphPart;
  std::set<GraphKey> keys;
  for (const RoundShape& shape : shapes) {
    const bool is_leased = shape.max_nodes_per_tree > 0;
    if (!options.time_phases) {
      keys.insert(shape.Key(kFirstRound));
      if (is_leased) keys.insert(shape.Key(kNextRound));
      continue;
    }
    for (const GraphPart part : {kFirstForward, kAccept, kDraft}) {
      keys.insert(shape.Key(part));
    }
    if (is_leased) keys.insert(shape.Key(kNextForward));
  }
  return static_cast<int>(keys.size());
}

int GraphCapacity(const EngineOptions& options, bool has_drafter) {
  const RoundProfile usual = UsualProfile(options, has_drafter);
  RoundProfile largest = usual;
  if (has_drafter) largest.nodes_per_tree = options.max_nodes_per_tree;
  return std::max(NumGraphs(ReachableShapes(usual, options), options),
                  NumGraphs(ReachableShapes(largest, options), options));
}

}  // namespace bole
