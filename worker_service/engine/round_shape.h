// The sizes that a round's operators are launched for.
#ifndef BOLE_WORKER_SERVICE_ENGINE_ROUND_SHAPE_H_
#define BOLE_WORKER_SERVICE_ENGINE_ROUND_SHAPE_H_

#include <optional>
#include <vector>

#include "common/step.h"
#include "kernels/graph_set.h"
#include "worker_service/engine/engine_options.h"

namespace bole {

// The smallest bucket that holds `count`, at most `max`. There are few buckets,
// so that few graphs serve all plans, but they are narrow where rows cost time.
// Requests: powers of two. Rows: powers of two up to 64, then also the
// midpoints between them up to 256, then multiples of 128.
int RequestBucket(int count, int max);
int RowBucket(int count, int max);
// All buckets of counts from 1 to `max`, ascending.
std::vector<int> RequestBuckets(int max);
std::vector<int> RowBuckets(int max);

// The part of a round that a graph holds. A round is replayed from two of them:
// rounds verify in one of many sizes and then draft in one of several ways, so
// with separate graphs their numbers add up instead of multiplying. The choice
// of a lease's next forest is queued before the first part, while the device
// still runs the previous round.
enum class GraphPart {
  kVerify,   // The forward pass and the acceptance.
  kForward,  // These two instead with EngineOptions::time_phases.
  kAccept,
  kDraft  // A draft, or the work that defers one.
};

// Everything that the launches of a forest round depend on; the rest is on the
// device. All rounds of a lease have the same shape.
struct RoundShape {
  bool is_decode;    // All trees are single roots.
  int requests;      // B
  int rows;          // N
  int mask_words;    // W
  int max_path = 0;  // The most nodes of a path; 0: not known.
  int path_rows;     // The most rows of all paths together.
  std::optional<DraftShape> draft = {};
  bool defers_draft = false;
  // The most nodes of a tree in a later round of a lease; 0 without a lease.
  int max_nodes_per_tree = 0;
  // Prefill chunks run together with the forest. Their sizes are not part of
  // the shape: such a round has no graph.
  bool has_chunks = false;

  bool ends_with_draft() const { return draft || defers_draft; }
  GraphKey Key(GraphPart part) const;
};

// REQUIRES: a plan with a forest that Validate(StepPlan) accepts.
RoundShape ShapeOf(const StepPlan& plan, const EngineOptions& options);

// The choices that a scheduler has for its rounds.
struct RoundProfile {
  std::vector<DraftShape> drafts;  // None: all rounds decode.
  bool defers = false;             // Rounds may defer their drafts.
  int nodes_per_tree = 1;          // The most.
};

// The profile that covers any policy: trees up to the largest possible, drafted
// as such or as one of a few chains, or not at all.
RoundProfile UsualProfile(const EngineOptions& options, bool has_drafter);

// Shapes that together have the keys of all graphs that rounds of such a
// scheduler can need: for any number of requests and nodes, planned by the host
// or leased. Each shape adds a key that the earlier ones lack, and the
// likeliest shapes come first. Paths are as long as options.max_draft allows.
std::vector<RoundShape> ReachableShapes(const RoundProfile& profile,
                                        const EngineOptions& options);

// The keys of the graphs from which a round of this shape is replayed.
std::vector<GraphKey> KeysOf(const RoundShape& shape,
                             const EngineOptions& options);

// The number of graphs for all rounds of the usual profile.
int GraphCapacity(const EngineOptions& options, bool has_drafter);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_ENGINE_ROUND_SHAPE_H_
