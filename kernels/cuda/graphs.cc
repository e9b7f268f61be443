#include "kernels/cuda/graphs.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/status_macros.h"
#include "kernels/cuda/check.h"

namespace bole::cuda {

void Graphs::Destroy::operator()(cudaGraphExec_t graph) const {
  cudaGraphExecDestroy(graph);
}

Graphs::~Graphs() {
  if (!graphs_.empty()) cudaStreamSynchronize(stream_);
}

absl::Status Graphs::Replay(const GraphKey& key,
                            const std::function<absl::Status()>& queue) {
  ++num_calls_;
  if (const auto found = graphs_.find(key); found != graphs_.end()) {
    found->second.last_use = num_calls_;
    state_.Barrier();
    return ToStatus(cudaGraphLaunch(found->second.graph.get(), stream_),
                    "launch of a graph");
  }
  ++num_misses_;
  BOLE_RETURN_IF_ERROR(queue());
  if (std::ssize(graphs_) >= capacity_) DropOldest();
  BOLE_ASSIGN_OR_RETURN(Graph graph, Capture(queue));
  graphs_.emplace(key, Entry{std::move(graph), num_calls_});
  return absl::OkStatus();
}

absl::StatusOr<Graphs::Graph> Graphs::Capture(
    const std::function<absl::Status()>& queue) {
  BOLE_RETURN_IF_ERROR(ToStatus(
      cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal),
      "begin of a capture"));
  state_.BeginCapture();
  const absl::Status queued = queue();
  state_.EndCapture();
  // The capture has to end, even after an error.
  cudaGraph_t captured = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(stream_, &captured);
  if (!queued.ok() || ended != cudaSuccess) {
    if (captured != nullptr) cudaGraphDestroy(captured);
    cudaGetLastError();  // Reported here, so the next launch must not.
    return queued.ok() ? ToStatus(ended, "end of a capture") : queued;
  }
  cudaGraphExec_t graph = nullptr;
  const cudaError_t made = cudaGraphInstantiateWithFlags(&graph, captured, 0);
  cudaGraphDestroy(captured);
  BOLE_RETURN_IF_ERROR(ToStatus(made, "making of a graph"));
  Graph owned(graph);
  BOLE_RETURN_IF_ERROR(
      ToStatus(cudaGraphUpload(graph, stream_), "upload of a graph"));
  return owned;
}

// A destroyed graph may still run; CUDA then keeps what the launch needs.
void Graphs::DropOldest() {
  graphs_.erase(std::min_element(graphs_.begin(), graphs_.end(),
                                 [](const auto& a, const auto& b) {
                                   return a.second.last_use < b.second.last_use;
                                 }));
}

}  // namespace bole::cuda
