// A cache of captured CUDA graphs.
#ifndef BOLE_KERNELS_CUDA_GRAPHS_H_
#define BOLE_KERNELS_CUDA_GRAPHS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cuda_runtime_api.h"
#include "kernels/cuda/queue_state.h"
#include "kernels/graph_set.h"

namespace bole::cuda {

// The first call with a key runs `queue` directly, so that products choose
// their algorithms and scratch grows, and then captures it without running it.
// Every later call is one launch. When the capacity is reached, the least
// recently used graph is evicted.
class Graphs final : public GraphSet {
 public:
  // `state` belongs to the stream and is notified where captures and graphs
  // begin and end. Both must outlive the set. REQUIRES: capacity >= 1.
  Graphs(cudaStream_t stream, int capacity, QueueState& state)
      : stream_(stream), capacity_(capacity), state_(state) {}
  ~Graphs() override;

  int capacity() const override { return capacity_; }
  int64_t num_misses() const override { return num_misses_; }
  absl::Status Replay(const GraphKey& key,
                      const std::function<absl::Status()>& queue) override;

 private:
  struct Destroy {
    void operator()(cudaGraphExec_t graph) const;
  };
  using Graph = std::unique_ptr<CUgraphExec_st, Destroy>;
  struct Entry {
    Graph graph;
    int64_t last_use;
  };

  absl::StatusOr<Graph> Capture(const std::function<absl::Status()>& queue);
  void DropOldest();

  const cudaStream_t stream_;
  const int capacity_;
  QueueState& state_;
  std::map<GraphKey, Entry> graphs_;
  int64_t num_calls_ = 0;
  int64_t num_misses_ = 0;
};

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_GRAPHS_H_
