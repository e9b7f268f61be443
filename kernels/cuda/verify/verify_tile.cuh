// A tile of the columns of a value head that a block verifies, its values in
// shared memory, and the gates of its nodes.
#ifndef BOLE_KERNELS_CUDA_VERIFY_VERIFY_TILE_CUH_
#define BOLE_KERNELS_CUDA_VERIFY_VERIFY_TILE_CUH_

#include <cstdint>

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/gdn/gdn_gates.cuh"
#include "kernels/cuda/gdn/gdn_views.cuh"
#include "kernels/cuda/verify/tree_gates.cuh"
#include "kernels/cuda/verify/verify_columns.cuh"
#include "kernels/gdn.h"

namespace bole::cuda {

// What a block works on: a tile of the columns of one value head. Its cluster
// has all tiles of some heads that read the key head.
struct LayerTile {
  int request;
  int key_head;
  int head;
  int column;  // The tile's first column.
  int rank;    // This block's rank in its cluster.
  int blocks;  // The number of blocks in the cluster.

  // Whether the cluster has the first of the heads that read the key head.
  bool owns_keys;

  // The request's first row, its number of rows, its slot, and whether its
  // state is zero.
  int first = 0;  // Row.
  int count = 0;
  int slot = 0;
  bool from_zero = false;

  __device__ void ReadRequest(const RowBatch& batch) {
    first = __ldcg(&batch.first_row[request]);
    count = __ldcg(&batch.first_row[request + 1]) - first;
    slot = __ldcg(&batch.slot[request]);
    from_zero = __ldcg(&batch.committed[request]) == 0;
  }
};

// A tile of kGroups times 16 columns of v: for each group parts of 64 nodes, as
// FormRightSide() reads them.
template <int kGroups, int kBlocks>
struct TileValues {
  uint4 part[kGroups][ValueParts(kBlocks)][kSlotBytes / sizeof(uint4)];

  // The address of 8 columns of a node, its vector number `vector`.
  __device__ uint4* At(int node, int vector) {
    constexpr int kPartNodes = kPartBlocks * kTileRows;
    const int offset =
        ColumnStream<1, 1>::ValueOffset(node % kPartNodes, vector % 2);
    return &part[vector / 2][node / kPartNodes][offset / sizeof(uint4)];
  }
};

// The gates of a tree's node, held by a thread; zero after the tree's last
// node.
template <int kWords>
struct NodeGates {
  int node;  // Negative: the thread has none.
  bool valid;
  float beta = 0;
  float log_decay = 0;
  uint32_t mask[kWords];

  // Reads the node's mask alone.
  __device__ NodeGates(const RowBatch& batch, const LayerTile& tile, int number)
      : node(number), valid(number >= 0 && number < tile.count) {
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      mask[w] = valid ? MaskWord(batch, tile.first + node, node, w) : 0;
    }
  }

  template <typename Gates>
  __device__ void Store(Gates& gates) const {
    gates.heads[0].beta[node] = beta;
    gates.heads[0].log_decay[node] = log_decay;
#pragma unroll
    for (int w = 0; w < kWords; ++w) gates.ancestors[node][w] = mask[w];
  }
  // Reads the gates from the factors. Returns the scales of the node's key and
  // query, zero after the last node.
  __device__ float2 Read(const GdnCoreParams& p, const LayerTile& tile) {
    if (!valid) return {0, 0};
    const FactorRows<BFloat16> factors(p.shape, p.factors, p.layer);
    const int row = tile.first + node;
    beta = factors.beta(row, tile.head);
    log_decay = factors.log_decay(row, tile.head);
    return {factors.k_scale(row, tile.key_head),
            p.q_scale[static_cast<int64_t>(row) * p.shape.key_heads +
                      tile.key_head]};
  }
};

// The projected values from which the gates are computed.
struct ProjectedGates {
  BFloat16 b = {};
  BFloat16 a = {};
  float negative_exp_a;
  float dt_bias;

  // Reads the weights alone.
  __device__ ProjectedGates(const GdnConvParams& p, const LayerTile& tile)
      : negative_exp_a(p.negative_exp_a[tile.head]),
        dt_bias(p.dt_bias[tile.head]) {}

  __device__ void Load(const GdnConvParams& p, const LayerTile& tile,
                       int node) {
    const BFloat16* projected =
        As<BFloat16>(p.projected) +
        static_cast<int64_t>(tile.first + node) * p.shape.projected_width();
    b = projected[p.shape.b_column() + tile.head];
    a = projected[p.shape.a_column() + tile.head];
  }
  // Computes the gates. The head's first tile writes them to the factors as
  // well.
  template <int kWords>
  __device__ void Compute(const GdnConvParams& p, const LayerTile& tile,
                          NodeGates<kWords>& gates) const {
    if (!gates.valid) return;
    gates.beta = Sigmoid(ToFloat(b));
    gates.log_decay = LogDecay(ToFloat(a), negative_exp_a, dt_bias);
    if (tile.column > 0) return;
    const FactorRows<BFloat16> factors(p.shape, p.factors, p.layer);
    factors.beta(tile.first + gates.node, tile.head) = gates.beta;
    factors.log_decay(tile.first + gates.node, tile.head) = gates.log_decay;
  }
};

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_VERIFY_VERIFY_TILE_CUH_
