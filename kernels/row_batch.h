#ifndef BOLE_KERNELS_ROW_BATCH_H_
#define BOLE_KERNELS_ROW_BATCH_H_

#include <cstdint>

#include "kernels/tensor.h"

namespace bole {

// The rows of one forward pass: N rows of B requests, where request b owns the
// rows first_row[b] .. first_row[b+1]-1. A row is a node of the request's tree
// (or a token of its prefill chunk, which is a tree without branches).
//
// All pointers refer to device memory, and nothing is owned. B and N are
// capacities; kernels read the topology itself, so one launch serves every
// topology.
//
// Invariants: parents come before children; parent[i] < node[i];
// depth[i] = 0 where parent[i] is -1, else depth of the parent + 1.
struct RowBatch {
  int max_requests;  // B
  int max_pages;     // Width of page_table.
  int mask_words;    // W; 0: each request is one chain, node i descends from
                     // every node before it.
  int max_path = 0;  // The most nodes of any path from a root to a leaf; 0:
                     // unknown.
  RowCount rows;     // N

  const int32_t* first_row;   // [B + 1]; unused requests are empty.
  const int32_t* request;     // [N]
  const int32_t* node;        // [N] number within the request's tree. The key
                              // and value of a row live at KV index first_key +
                              // committed + node (kernels/attention.h) until
                              // they are compacted.
  const int32_t* parent;      // [N] node number, or -1: continues the prefix.
  const int32_t* depth;       // [N] position = committed + depth.
  const uint32_t* ancestors;  // [N, W] bit j: node j is an ancestor or the node
                              // itself.

  const int32_t* slot;        // [B] state slot.
  const int32_t* committed;   // [B] tokens whose state and KV are final. 0: the
                              // slot's content is taken as zero and not read.
  const int32_t* page_table;  // [B, max_pages] KV index i is row i % page_size
                              // of page page_table[b, i / page_size].
};

// Rows of a RowBatch that became part of their sequences, request by request,
// in order: an accepted path, or all the rows of a prefill chunk.
struct RowPath {
  const int32_t* first;  // [B + 1]
  const int32_t* row;    // [first[B]]
};

}  // namespace bole

#endif  // BOLE_KERNELS_ROW_BATCH_H_
