// What a value head's products with up to 128 nodes are scaled and masked by,
// and the warps that bring it to shared memory (gdn_verify_long.cu).
#ifndef BOLE_KERNELS_CUDA_VERIFY_VERIFY_LONG_GATES_CUH_
#define BOLE_KERNELS_CUDA_VERIFY_VERIFY_LONG_GATES_CUH_

#include <cstdint>

#include "kernels/cuda/gdn/gdn_views.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/verify/tree_gates.cuh"
#include "kernels/cuda/verify/verify_batch_gates.cuh"
#include "kernels/cuda/verify/verify_node_gates.cuh"
#include "kernels/cuda/warp_barriers.cuh"
#include "kernels/gdn.h"

namespace bole::cuda {

// Filled by one warp, of which each lane has nodes lane + 32 n.
struct LongGates : NodeGates<128> {
  static constexpr int kPerLane = kNodes / 32;
  static constexpr uint8_t kNone = 255;

  uint8_t nearest[kNodes];  // The parent, until paths are summed up.

  // The topology, which may be read before WaitForPrevious().
  __device__ void PutAncestors(const GdnCoreParams& p,
                               const HeadHeader& header) {
    uint32_t bits[kPerLane][kWords];
#pragma unroll
    for (int n = 0; n < kPerLane; ++n) {
      const int i = Node(n);
      // Ancestors come before their node.
#pragma unroll
      for (int w = 0; w < kWords; ++w) {
        bits[n][w] = w <= n && i < header.count
                         ? MaskWord(p.batch, header.first_row + i, i, w)
                         : 0;
      }
    }
#pragma unroll
    for (int n = 0; n < kPerLane; ++n) {
      const int i = Node(n);
      uint8_t parent = kNone;
#pragma unroll
      for (int w = 0; w <= n; ++w) {
        const uint32_t others = bits[n][w] & (w < n ? ~0u : (1u << i % 32) - 1);
        if (others == 0) continue;
        parent = static_cast<uint8_t>(32 * w + 31 - __clz(others));
      }
      nearest[i] = parent;
#pragma unroll
      for (int w = 0; w < kWords; ++w) ancestors[i][w] = bits[n][w];
    }
  }

  // The rest, but for what depends on paths. All loads are on their way before
  // the first is used: of a row that is there, wherever the node is.
  __device__ void PutScales(const GdnCoreParams& p, const HeadHeader& header) {
    const FactorRows<BFloat16> factors(p.shape, p.factors, p.layer);
    const int key_head = KeyHead(p.shape, header.head);
    float values[kPerLane][4];
#pragma unroll
    for (int n = 0; n < kPerLane; ++n) {
      const int row = header.first_row + min(Node(n), header.count - 1);
      values[n][0] = factors.log_decay(row, header.head);
      values[n][1] = factors.beta(row, header.head);
      values[n][2] = factors.k_scale(row, key_head);
      values[n][3] =
          p.q_scale[static_cast<int64_t>(row) * p.shape.key_heads + key_head];
    }
#pragma unroll
    for (int n = 0; n < kPerLane; ++n) {
      const int i = Node(n);
      const bool valid = i < header.count;
      log_decay[i] = valid ? values[n][0] : 0;
      beta[i] = valid ? values[n][1] : 0;
      node[i].k_scale = valid ? values[n][2] : 0;
      q_scale[i] = valid ? values[n][3] : 0;
    }
  }

  // What depends on paths. Each node's sum is of more and more of its path,
  // twice as much in each step: it takes in that of the nearest ancestor that
  // it does not have.
  __device__ void FinishAll() {
    double sums[kPerLane];
    __syncwarp();
#pragma unroll
    for (int n = 0; n < kPerLane; ++n) sums[n] = log_decay[Node(n)];
    for (;;) {
      double further[kPerLane];
      uint8_t next[kPerLane];
      bool any = false;
#pragma unroll
      for (int n = 0; n < kPerLane; ++n) {
        const uint8_t from = nearest[Node(n)];
        const bool is_node = from != kNone;
        further[n] = is_node ? log_decay[from % kNodes] : 0;
        next[n] = is_node ? nearest[from % kNodes] : kNone;
        any |= is_node;
      }
      if (__any_sync(~0u, any) == 0) break;
      __syncwarp();  // All have read.
#pragma unroll
      for (int n = 0; n < kPerLane; ++n) {
        sums[n] += further[n];
        log_decay[Node(n)] = sums[n];
        nearest[Node(n)] = next[n];
      }
      __syncwarp();
    }
#pragma unroll
    for (int n = 0; n < kPerLane; ++n) FinishNode(*this, Node(n), sums[n]);
  }

 private:
  __device__ static int Node(int n) {
    return 32 * n + static_cast<int>(threadIdx.x % 32);
  }
};

// By as many warps as there are stages: each has a stage of its own, and every
// head of the block that comes to it. What the first head waits for comes
// before more.
template <typename Shared>
__device__ void LoadLongGates(const GdnCoreParams& p, BatchTask task,
                              Shared& s) {
  const int stage = static_cast<int>(threadIdx.x / 32) % kGateStages;
  StageAt<1> at;
  bool is_first = true;
  HeadCursor next(p, task);
  for (int n = 0;; n = (n + 1) % kGateStages) {
    if (n == stage) {
      const HeadHeader header = next.Header();
      if (header.count > LongGates::kNodes) __trap();
      at.WaitEmpty(&s.gates_empty[stage]);
      if (threadIdx.x % 32 == 0) {
        s.headers[stage] = header;
        Arrive(AddressOf(&s.headers_full[stage]));
      }
      if (header.count == 0) return;
      auto& gates = s.gates[stage];
      gates.PutAncestors(p, header);
      WaitForPrevious();
      if (stage != 0) WaitBarrier(AddressOf(&s.first_gates), 0);
      gates.PutScales(p, header);
      gates.FinishAll();
      ArriveLanes(&s.gates_full[stage]);
      if (is_first && stage == 0) ArriveLanes(&s.first_gates);
      is_first = false;
      at.Advance();
    }
    if (!next.IsValid()) return;
    next.Advance();
  }
}

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_VERIFY_VERIFY_LONG_GATES_CUH_
