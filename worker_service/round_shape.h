// The sizes that a round's operators are launched for.
#ifndef BOLE_WORKER_SERVICE_ROUND_SHAPE_H_
#define BOLE_WORKER_SERVICE_ROUND_SHAPE_H_

#include <optional>

#include "common/step.h"
#include "kernels/backend.h"
#include "worker_service/engine_options.h"

namespace bole {

// The least bucket that `count` fits in, and at most `max`: few buckets, so
// that few graphs serve every plan, and close to what they hold where rows cost
// time. Requests: powers of two. Rows: powers of two to 64, then by halves to
// 256, then by 128.
int RequestBucket(int count, int max);
int RowBucket(int count, int max);

// All that a forest round's launches depend on: the rest is on the device. The
// rounds of a lease have one shape.
struct RoundShape {
  bool is_decode;    // Lone roots.
  int requests;      // B
  int rows;          // N
  int mask_words;    // W
  int max_path = 0;  // Nodes of a path, at most; 0: not known.
  int path_rows;     // Rows of all paths together, at most.
  std::optional<DraftShape> draft;
  // Of the later rounds of a lease; 0 without one.
  int max_nodes_per_tree = 0;

  // `part` tells sequences of one shape apart.
  GraphKey Key(int part) const;
};

// REQUIRES: a plan with a forest that Validate(StepPlan) accepts.
RoundShape ShapeOf(const StepPlan& plan, const EngineOptions& options);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_ROUND_SHAPE_H_
