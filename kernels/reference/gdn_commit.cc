#include "kernels/reference/gdn_commit.h"

#include <algorithm>
#include <cstddef>

#include "kernels/reference/gdn_recurrence.h"
#include "kernels/reference/gdn_views.h"

namespace bole::reference {
namespace {

void CommitHead(const GdnCommitParams& p, int request, int layer, int head) {
  const GdnFactorRows factors(p.shape, p.factors, layer);
  float* state =
      HeadState(p.shape, p.states, p.batch.slot[request], layer, head);
  const size_t size = static_cast<size_t>(p.shape.value_dim) * p.shape.key_dim;
  if (p.factors.node_states != nullptr) {
    const int last = p.path.row[p.path.first[request + 1] - 1];
    std::copy_n(NodeState(p.shape, p.factors, layer, last, head), size, state);
    return;
  }
  if (p.batch.committed[request] == 0) std::fill_n(state, size, 0.0f);
  for (int i = p.path.first[request]; i < p.path.first[request + 1]; ++i) {
    StepHead(factors, p.path.row[i], head, /*readout=*/nullptr, state);
  }
}

// The new window is the last conv_taps rows of the old one and the path's.
void CommitWindow(const GdnCommitParams& p, int request, int layer) {
  const GdnFactorRows factors(p.shape, p.factors, layer);
  const int first = p.path.first[request];
  const int count = p.path.first[request + 1] - first;
  const int taps = p.shape.conv_taps;
  const size_t width = p.shape.conv_width();
  float* window = SlotWindow(p.shape, p.states, p.batch.slot[request], layer);
  const bool from_zero = p.batch.committed[request] == 0;
  // Ascending, and count > 0: no row is overwritten before it has moved.
  for (int i = 0; i < taps; ++i) {
    const int from = i + count;
    float* out = window + i * width;
    if (from >= taps) {
      std::copy_n(factors.raw(p.path.row[first + from - taps]), width, out);
    } else if (from_zero) {
      std::fill_n(out, width, 0.0f);
    } else {
      std::copy_n(window + from * width, width, out);
    }
  }
}

bool IsEmpty(const RowPath& path, int request) {
  return path.first[request] == path.first[request + 1];
}

}  // namespace

void GdnCommitStates(const GdnCommitParams& p, ThreadPool& pool) {
  const int heads = p.shape.value_heads;
  const int per_request = p.num_layers * heads;
  pool.ParallelFor(p.batch.max_requests * per_request, [&](int task) {
    const int request = task / per_request;
    if (IsEmpty(p.path, request)) return;
    const int layer = p.first_layer + task % per_request / heads;
    CommitHead(p, request, layer, task % heads);
  });
}

void GdnCommitWindows(const GdnCommitParams& p, ThreadPool& pool) {
  pool.ParallelFor(p.batch.max_requests * p.num_layers, [&](int task) {
    const int request = task / p.num_layers;
    if (IsEmpty(p.path, request)) return;
    CommitWindow(p, request, p.first_layer + task % p.num_layers);
  });
}

}  // namespace bole::reference
