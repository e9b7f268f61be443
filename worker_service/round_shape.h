// The sizes that a round's operators are launched for.
#ifndef BOLE_WORKER_SERVICE_ROUND_SHAPE_H_
#define BOLE_WORKER_SERVICE_ROUND_SHAPE_H_

#include <optional>
#include <vector>

#include "common/step.h"
#include "kernels/graph_set.h"
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

// What a graph holds. A round is two of them: rounds verify in one of many
// sizes and then draft in one of several ways, and so the numbers of graphs add
// up, and do not multiply. The choice of a lease's next forest is queued before
// the first, while the device runs the round before.
enum class GraphPart {
  kVerify,   // The forward, and what becomes of it.
  kForward,  // Its parts, with EngineOptions::time_phases.
  kAccept,
  kDraft  // A draft, or what puts one off.
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
  // No tree of a later round of a lease has more; 0 without a lease.
  int max_nodes_per_tree = 0;
  // Prefill chunks run beside the forest, of sizes that are not told here: such
  // a round has no graph.
  bool has_chunks = false;

  bool ends_with_draft() const { return draft || defers_draft; }
  GraphKey Key(GraphPart part) const;
};

// REQUIRES: a plan with a forest that Validate(StepPlan) accepts.
RoundShape ShapeOf(const StepPlan& plan, const EngineOptions& options);

// Among what the rounds of a scheduler are chosen.
struct RoundProfile {
  std::vector<DraftShape> drafts;  // None: all rounds decode.
  bool defers = false;             // Rounds may put their draft off.
  int nodes_per_tree = 1;          // At most.
};

// That of any policy: trees as large as they may be, drafted as such or as one
// of a few chains, or not at all.
RoundProfile UsualProfile(const EngineOptions& options, bool has_drafter);

// Shapes that have all keys of graphs that rounds of such a scheduler can have:
// of any number of requests and nodes, planned by the host or leased. Each has
// a key that those before have not, and the likeliest are first. Paths are as
// long as options.max_draft allows.
std::vector<RoundShape> ReachableShapes(const RoundProfile& profile,
                                        const EngineOptions& options);

// The keys of the graphs that a round of this shape is replayed from.
std::vector<GraphKey> KeysOf(const RoundShape& shape,
                             const EngineOptions& options);

// Graphs that hold every round of the usual profile.
int GraphCapacity(const EngineOptions& options, bool has_drafter);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_ROUND_SHAPE_H_
