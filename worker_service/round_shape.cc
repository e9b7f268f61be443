#include "worker_service/round_shape.h"

#include <algorithm>
#include <bit>

namespace bole {

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

GraphKey RoundShape::Key(int part) const {
  return {2 * part + (is_decode ? 1 : 0),
          requests,
          rows,
          mask_words,
          max_path,
          path_rows,
          draft ? draft->top_k : 0,
          draft ? draft->depth : 0,
          max_nodes_per_tree};
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
      .draft = plan.draft};
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
  shape.path_rows = RowBucket(
      std::min<int64_t>(shape.rows,
                        static_cast<int64_t>(shape.requests) * shape.max_path),
      shape.rows);
  return shape;
}

}  // namespace bole
