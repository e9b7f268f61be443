// The pieces that tiled attention is cut into. A request's rows are its nodes
// times the query heads that share a KV head, and heads vary fastest. An item
// is up to item_rows() consecutive rows. The nodes of a request ascend.
//
// The topology is written before the forward pass, so it may be read before the
// previous kernels have ended. Its loads bypass L1, which may hold stale
// values.
#ifndef BOLE_KERNELS_CUDA_ATTENTION_ATTENTION_ITEMS_CUH_
#define BOLE_KERNELS_CUDA_ATTENTION_ATTENTION_ITEMS_CUH_

#include <cstdint>

#include "kernels/cuda/attention/attention_tiles.h"
#include "kernels/row_batch.h"

namespace bole::cuda {

struct AttentionItem {
  int request;
  int first_index;  // KV index of the request's node 0.
  int first_node;   // The item's first node, as a row of the batch.
  int first_head;   // The first row's query head, in the group.
  int rows;         // 0: there is no such item.

  // The node of a row, counted from first_node on, and its query head in the
  // group.
  __device__ int Node(int row, const Divisor& group) const {
    return group.Quotient(first_head + row);
  }
  __device__ int Head(int row, const Divisor& group) const {
    return group.Remainder(first_head + row);
  }
  __device__ int Nodes(const Divisor& group) const {
    return Node(rows - 1, group) + 1;
  }
};

// Item `index` of all, in the order of requests. Whole warps call it together.
__device__ inline AttentionItem FindItem(const TileArgs& args, int index) {
  const RowBatch& batch = args.p.batch;
  const Divisor& group = args.plan.group;
  const int max_rows = args.plan.item_rows();
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int base = 0; base < batch.max_requests; base += 32) {
    const int request = base + lane;
    int first_node = 0;
    int rows = 0;
    int first_index = 0;
    if (request < batch.max_requests) {
      first_node = __ldcg(batch.first_row + request);
      rows =
          (__ldcg(batch.first_row + request + 1) - first_node) * group.divisor;
      first_index = args.p.first_key + __ldcg(batch.committed + request);
    }
    const int items = (rows + max_rows - 1) / max_rows;
    int through = items;
    for (int offset = 1; offset < 32; offset *= 2) {
      const int other = __shfl_up_sync(~0u, through, offset);
      if (lane >= offset) through += other;
    }
    const uint32_t found = __ballot_sync(~0u, index < through);
    if (found != 0) {
      const int owner = __ffs(static_cast<int>(found)) - 1;
      const int first =
          (index - __shfl_sync(~0u, through - items, owner)) * max_rows;
      return {.request = base + owner,
              .first_index = __shfl_sync(~0u, first_index, owner),
              .first_node =
                  __shfl_sync(~0u, first_node, owner) + group.Quotient(first),
              .first_head = group.Remainder(first),
              .rows = min(max_rows, __shfl_sync(~0u, rows, owner) - first)};
    }
    index -= __shfl_sync(~0u, through, 31);
  }
  return {};
}

// The lowest `count` bits; none below 0, all from 64 on.
__device__ inline uint64_t LowBits(int count) {
  if (count <= 0) return 0;
  return count >= 64 ? ~uint64_t{0} : (uint64_t{1} << count) - 1;
}

// Which KV indices a node row sees.
class VisibleIndices {
 public:
  __device__ VisibleIndices(const AttentionParams& p, int first_index,
                            int node_row)
      : first_key_(p.first_key),
        plain_(first_index),
        node_(__ldcg(p.batch.node + node_row)) {
    const RowBatch& batch = p.batch;
    if (batch.mask_words == 0) {
      plain_ += node_ + 1;
    } else {
      ancestors_ =
          batch.ancestors + static_cast<int64_t>(node_row) * batch.mask_words;
    }
  }

  // Bit i: index first + i is visible.
  __device__ uint64_t Bits(int first) const {
    const uint64_t prefix =
        LowBits(plain_ - first) & ~LowBits(first_key_ - first);
    const int node = first - plain_;
    if (ancestors_ == nullptr || node <= -64) return prefix;
    if (node < 0) return prefix | AncestorBits(0) << -node;
    return AncestorBits(node);
  }

 private:
  // Bit i: node `node` + i is visible.
  __device__ uint64_t AncestorBits(int node) const {
    const int word = node / 32;
    const uint64_t low = Word(word) | static_cast<uint64_t>(Word(word + 1))
                                          << 32;
    const int shift = node % 32;
    if (shift == 0) return low;
    return low >> shift | static_cast<uint64_t>(Word(word + 2)) << (64 - shift);
  }
  __device__ uint32_t Word(int word) const {
    return word <= node_ / 32 ? __ldcg(ancestors_ + word) : 0;
  }

  int first_key_;
  int plain_;  // Indices from first_key_ up to this one are visible.
  int node_;
  const uint32_t* ancestors_ = nullptr;  // Null: no others are visible.
};

// The KV indices of an item's rows.
struct AttentionSpan {
  int plain;  // All rows see every index from first_key up to this one,
  int end;    // and none from this one on.
};

__device__ inline AttentionSpan SpanOf(const RowBatch& batch,
                                       const AttentionItem& item,
                                       const Divisor& group) {
  const int first = __ldcg(batch.node + item.first_node);
  const int last = __ldcg(batch.node + item.first_node + item.Nodes(group) - 1);
  const int node_0 = item.first_index;
  return {.plain = batch.mask_words == 0 ? node_0 + first + 1 : node_0,
          .end = node_0 + last + 1};
}

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_ATTENTION_ATTENTION_ITEMS_CUH_
