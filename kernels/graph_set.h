// Sequences of operators that a backend may keep.
#ifndef BOLE_KERNELS_GRAPH_SET_H_
#define BOLE_KERNELS_GRAPH_SET_H_

#include <array>
#include <cstdint>
#include <functional>

#include "absl/status/status.h"

namespace bole {

// Stands for a sequence of operator calls with all their parameters.
using GraphKey = std::array<int32_t, 9>;

// Sequences of operators that are run again and again.
class GraphSet {
 public:
  virtual ~GraphSet() = default;

  // How many keys it keeps at most; 0: none.
  virtual int capacity() const { return 0; }
  // Calls of Replay() whose key it could have kept, and did not have.
  virtual int64_t num_misses() const { return 0; }

  // Runs what `queue` queues: operators, no copies and no marks, the same for
  // one key. A set may keep them at the first call, and from then on run them
  // without calling `queue`. Whatever they touch must outlive the set. May
  // allocate when a key is new.
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
