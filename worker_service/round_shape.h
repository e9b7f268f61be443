// The sizes that a round's operators are launched for.
#ifndef BOLE_WORKER_SERVICE_ROUND_SHAPE_H_
#define BOLE_WORKER_SERVICE_ROUND_SHAPE_H_

#include <optional>
#include <vector>

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
// All buckets of counts from 1 to `max`, ascending.
std::vector<int> RequestBuckets(int max);
std::vector<int> RowBuckets(int max);

// What a graph holds. The rounds of a lease but for the first begin with the
// choice of their forest.
enum class GraphPart {
  kFirstRound,
  kNextRound,
  kFirstForward,
  kNextForward,
  kAccept,
  kDraft
};

// All that a forest round's launches depend on: the rest is on the device. The
// rounds of a lease have one shape.
struct RoundShape {
  bool is_decode;    // Lone roots.
  int requests;      // B
  int rows;          // N
  int mask_words;    // W
  int max_path = 0;  // Nodes of a path, at most; 0: not known.
  int path_rows;     // Rows of all paths together, at most.
  std::optional<DraftShape> draft = {};
  bool defers_draft = false;
  // Room for the later rounds of a lease; 0 without a lease.
  int max_nodes_per_tree = 0;
  // Prefill chunks run beside the forest, of sizes that are not told here: such
  // a round has no graph.
  bool has_chunks = false;

  GraphKey Key(GraphPart part) const;
};

// REQUIRES: a plan with a forest that Validate(StepPlan) accepts.
RoundShape ShapeOf(const StepPlan& plan, const EngineOptions& options);

// How one scheduler speculates, as long as it is connected.
struct RoundProfile {
  std::optional<DraftShape> draft;  // None: all rounds decode.
  int nodes_per_tree = 1;
};

// The profile of a scheduler with default settings.
RoundProfile UsualProfile(const EngineOptions& options, bool has_drafter);

// All shapes that rounds of such a scheduler can have: of any number of
// requests, with all their nodes (nodes_per_tree for each, as far as max_nodes
// allows) or, where texts end, fewer of them; planned by the host, and leased.
// The likeliest are first. Paths are as long as options.max_draft allows.
std::vector<RoundShape> ReachableShapes(const RoundProfile& profile,
                                        const EngineOptions& options);

// The graphs that rounds of such shapes are replayed from.
int NumGraphs(const std::vector<RoundShape>& shapes,
              const EngineOptions& options);

// Graphs that hold every round of the usual profile, and every round of one
// with trees as large as they may be.
int GraphCapacity(const EngineOptions& options, bool has_drafter);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_ROUND_SHAPE_H_
