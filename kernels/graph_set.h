// Sequences of operator calls that a backend may keep and replay.
#ifndef BOLE_KERNELS_GRAPH_SET_H_
#define BOLE_KERNELS_GRAPH_SET_H_

#include <array>
#include <cstdint>
#include <functional>

#include "absl/status/status.h"

namespace bole {

// Stands for a sequence of operator calls with all their parameters.
using GraphKey = std::array<int32_t, 9>;

// Keeps sequences of operator calls that are run again and again.
class GraphSet {
 public:
  virtual ~GraphSet() = default;

  // How many keys it keeps at most; 0: none.
  virtual int capacity() const { return 0; }
  // Calls of Replay() with a key that it could have kept but did not have.
  virtual int64_t num_misses() const { return 0; }

  // Runs what `queue` queues, which must be only operators, without copies or
  // marks, and the same ones for the same key. A set may keep them at the first
  // call, and from then on run them without calling `queue`. All memory that
  // they use must outlive the set. May allocate when a key is new.
  virtual absl::Status Replay(const GraphKey& key,
                              const std::function<absl::Status()>& queue) = 0;
};

// Keeps nothing.
class QueuedGraphs final : public GraphSet {
 public:
  absl::Status Replay(const GraphKey& /*key*/,
                      const std::function<absl::Status()>& queue) override {
    return queue();
  }
};

}  // namespace bole

#endif  // BOLE_KERNELS_GRAPH_SET_H_
