// Verification node by node, with a full state kept for each node, as serving
// systems do without a closed form. Its time is bound by the snapshots' bytes.
#include "kernels/cuda/verify/gdn_verify_walk.h"

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/check.h"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/gdn/gdn_recurrence.cuh"
#include "kernels/cuda/gdn/gdn_rows.cuh"
#include "kernels/cuda/gdn/gdn_state_rows.cuh"
#include "kernels/cuda/gdn/gdn_views.cuh"
#include "kernels/cuda/launch.cuh"

namespace bole::cuda {
namespace {

// A request's nodes in one value head.
template <typename T>
struct HeadNodes {
  const GdnCoreParams& p;
  FactorRows<T> factors;
  int head;
  int key_head;
  int first;     // Row of node 0.
  int count;     // Nodes.
  float* state;  // [dv, dk] committed, or null: zero.

  // Grid: value tiles, value heads, requests.
  __device__ explicit HeadNodes(const GdnCoreParams& params)
      : p(params),
        factors(params.shape, params.factors, params.layer),
        head(blockIdx.y),
        key_head(KeyHead(params.shape, head)),
        first(params.batch.first_row[blockIdx.z]),
        count(params.batch.first_row[blockIdx.z + 1] - first),
        state(nullptr) {
    if (count > 0 && p.batch.committed[blockIdx.z] > 0) {
      state =
          HeadState(p.shape, p.states, p.batch.slot[blockIdx.z], p.layer, head);
    }
  }

  __device__ int parent(int i) const {
    return p.batch.mask_words == 0 ? i - 1 : p.batch.parent[first + i];
  }
  // The state [dv, dk] after node i, or before the tree if i is -1.
  __device__ float* after(int i) const {
    return i < 0 ? state
                 : NodeState(p.shape, p.factors, p.layer, first + i, head);
  }
  __device__ const T* q(int i) const {
    return As<T>(p.q) + query_row(i) * p.shape.key_dim;
  }
  __device__ float q_scale(int i) const { return p.q_scale[query_row(i)]; }
  __device__ T* out(int i) const {
    return As<T>(p.out) +
           (static_cast<int64_t>(first + i) * p.shape.value_heads + head) *
               p.shape.value_dim;
  }

 private:
  __device__ int64_t query_row(int i) const {
    return static_cast<int64_t>(first + i) * p.shape.key_heads + key_head;
  }
};

constexpr int kWalkRows = 2;  // Rows of a lane.
constexpr int kWalkWarps = 4;
using WalkState = StateRows<kWalkRows>;
constexpr int kWalkValues = kWalkWarps * WalkState::kPerWarp;

// A node's operands, loaded while the previous node is computed.
template <typename T>
struct NodeOperands {
  RawElements<T> k;
  RawElements<T> q;
  float k_scale;
  float q_scale;
  float log_decay;
  float beta;
  T v[kWalkRows];

  __device__ void Load(const HeadNodes<T>& nodes, const WalkState& state,
                       int i) {
    const int row = nodes.first + i;
    k.Load(nodes.factors.k(row, nodes.key_head));
    q.Load(nodes.q(i));
    k_scale = nodes.factors.k_scale(row, nodes.key_head);
    q_scale = nodes.q_scale(i);
    log_decay = nodes.factors.log_decay(row, nodes.head);
    beta = nodes.factors.beta(row, nodes.head);
    const T* values = nodes.factors.v(row, nodes.head);
#pragma unroll
    for (int r = 0; r < kWalkRows; ++r) {
      v[r] = values[min(state.row(r), state.value_dim - 1)];
    }
  }
};

// Walks the nodes of a head. Where a node's parent is not the previous node,
// the parent's state is loaded two nodes in advance. A thread reads only
// snapshots that it wrote.
template <typename T>
struct Walk {
  const HeadNodes<T>& nodes;
  WalkState state;       // Before node i, then after it.
  NodeOperands<T> next;  // Operands of node i.
  int parents[2];        // Parents of nodes i + 1 and i + 2.

  __device__ Walk(const HeadNodes<T>& head_nodes, int first_value)
      : nodes(head_nodes),
        state(first_value, head_nodes.p.shape.value_dim),
        parents{Parent(1), Parent(2)} {
    Load(-1, state);
    next.Load(nodes, state, 0);
  }
  // The parent of node i. After the last node it is i - 1, which needs no load.
  __device__ int Parent(int i) const {
    return i < nodes.count ? nodes.parent(i) : i - 1;
  }
  __device__ void Load(int i, WalkState& to) const {
    const float* from = nodes.after(i);
    if (from == nullptr) {
      to.Clear();
    } else {
      to.Load(from);
    }
  }

  __device__ void ReadNode(int i) {
    const NodeOperands<T> node = next;
    if (i + 1 < nodes.count) next.Load(nodes, state, i + 1);
    KeyElements k;
    KeyElements q;
    node.k.Scale(node.k_scale, k);
    node.q.Scale(node.q_scale, q);
    const float decay = expf(node.log_decay);
#pragma unroll
    for (int r = 0; r < kWalkRows; ++r) {
      AdvanceRow(state.value[r], k, decay, node.beta, ToFloat(node.v[r]));
      const float o = DotOfRow(state.value[r], q);
      if (threadIdx.x % kRowLanes == 0 && state.row(r) < state.value_dim) {
        nodes.out(i)[state.row(r)] = FromFloat<T>(o);
      }
    }
    state.Store(nodes.after(i));
  }

  // `one` and `two` are the states before nodes i + 1 and i + 2 if those do not
  // follow their parents; `two` is filled in here.
  __device__ void Step(int i, const WalkState& one, WalkState& two) {
    const int later = Parent(i + 3);
    if (parents[1] < i) Load(parents[1], two);
    ReadNode(i);
    if (parents[1] == i) two = state;
    if (parents[0] != i) state = one;
    parents[0] = parents[1];
    parents[1] = later;
  }
};

// For keys 128 wide.
template <typename T>
__global__ void __launch_bounds__(32 * kWalkWarps) WalkKernel(GdnCoreParams p) {
  WaitForPrevious();
  StartNext();
  const HeadNodes<T> nodes(p);
  if (nodes.count == 0) return;
  Walk<T> walk(nodes,
               static_cast<int>(blockIdx.x) * kWalkValues +
                   static_cast<int>(threadIdx.x / 32) * WalkState::kPerWarp);
  WalkState even = walk.state;  // Before even nodes: 0 is under way.
  WalkState odd = walk.state;
  if (walk.parents[0] < 0) walk.Load(-1, odd);
  for (int i = 0; i < nodes.count; i += 2) {
    walk.Step(i, odd, even);
    if (i + 1 < nodes.count) walk.Step(i + 1, even, odd);
  }
}

// For keys of any width up to 256: a warp for each row of the state.
template <typename T, int kPerLane>
__global__ void __launch_bounds__(32 * kRowWarps)
    PlainWalkKernel(GdnCoreParams p) {
  WaitForPrevious();
  StartNext();
  const HeadNodes<T> nodes(p);
  const int value = static_cast<int>(blockIdx.x) * kRowWarps +
                    static_cast<int>(threadIdx.x / 32);
  if (value >= p.shape.value_dim) return;
  const int dim = p.shape.key_dim;
  const int64_t at = static_cast<int64_t>(value) * dim;
  for (int i = 0; i < nodes.count; ++i) {
    const int row = nodes.first + i;
    WarpVector<kPerLane> state;
    state.Clear();
    const float* before = nodes.after(nodes.parent(i));
    if (before != nullptr) state.Load(before + at, dim);
    WarpVector<kPerLane> k;
    WarpVector<kPerLane> q;
    k.LoadScaled(nodes.factors.k(row, nodes.key_head),
                 nodes.factors.k_scale(row, nodes.key_head), dim);
    q.LoadScaled(nodes.q(i), nodes.q_scale(i), dim);
    Advance(state, k, expf(nodes.factors.log_decay(row, nodes.head)),
            nodes.factors.beta(row, nodes.head),
            ToFloat(nodes.factors.v(row, nodes.head)[value]));
    const float o = Dot(state, q);
    if (threadIdx.x % 32 == 0) nodes.out(i)[value] = FromFloat<T>(o);
    state.Store(nodes.after(i) + at, dim);
  }
}

constexpr int kCopyThreads = 256;
constexpr int kCopiesPerThread = 4;

// `size`: that of a layer's state, in Vectors. Grid: pieces, layers, requests.
template <typename Vector>
__global__ void __launch_bounds__(kCopyThreads)
    CopySnapshotsKernel(GdnCommitParams p, int size) {
  WaitForPrevious();
  StartNext();
  const int request = blockIdx.z;
  const int end = p.path.first[request + 1];
  if (p.path.first[request] == end) return;
  const int layer = p.first_layer + static_cast<int>(blockIdx.y);
  const auto* from = reinterpret_cast<const Vector*>(
      NodeState(p.shape, p.factors, layer, p.path.row[end - 1], /*head=*/0));
  auto* to = reinterpret_cast<Vector*>(
      HeadState(p.shape, p.states, p.batch.slot[request], layer, /*head=*/0));
  const int first =
      static_cast<int>(blockIdx.x) * kCopyThreads * kCopiesPerThread +
      static_cast<int>(threadIdx.x);
  Vector piece[kCopiesPerThread];
#pragma unroll
  for (int i = 0; i < kCopiesPerThread; ++i) {
    const int at = first + i * kCopyThreads;
    if (at < size) piece[i] = from[at];
  }
#pragma unroll
  for (int i = 0; i < kCopiesPerThread; ++i) {
    const int at = first + i * kCopyThreads;
    if (at < size) to[at] = piece[i];
  }
}

}  // namespace

absl::Status GdnVerifyWalk(const GdnCoreParams& params, const Launch& on) {
  void (*kernel)(GdnCoreParams) = nullptr;
  const bool wide = params.shape.key_dim == kStateKeyDim;
  WithElement(on.type, [&](auto element) {
    using T = decltype(element);
    if (wide) {
      kernel = &WalkKernel<T>;
      return;
    }
    WithPerLane(params.shape.key_dim, [&](auto per_lane) {
      kernel = &PlainWalkKernel<T, decltype(per_lane)::value>;
    });
  });
  if (kernel == nullptr) return KeysTooWide("GdnVerify", params.shape);
  const int values = wide ? kWalkValues : kRowWarps;
  const LaunchShape shape = {
      .grid = dim3((params.shape.value_dim + values - 1) / values,
                   params.shape.value_heads, params.batch.max_requests),
      .block = dim3(32 * (wide ? kWalkWarps : kRowWarps))};
  return LaunchDependent("GdnVerify, node by node", kernel, shape, on, params);
}

absl::Status GdnCommitSnapshots(const GdnCommitParams& params,
                                const Launch& on) {
  const int floats = params.shape.value_width() * params.shape.key_dim;
  const bool in_fours = floats % 4 == 0;
  const int size = in_fours ? floats / 4 : floats;
  constexpr int kPerBlock = kCopyThreads * kCopiesPerThread;
  const LaunchShape shape = {
      .grid = dim3((size + kPerBlock - 1) / kPerBlock, params.num_layers,
                   params.batch.max_requests),
      .block = dim3(kCopyThreads)};
  return LaunchDependent(
      "GdnCommitStates, of snapshots",
      in_fours ? &CopySnapshotsKernel<float4> : &CopySnapshotsKernel<float>,
      shape, on, params, size);
}

}  // namespace bole::cuda
