// The warpgroup of gdn_verify_paths.cu that builds M = C (I + G)^-1 of one head
// after another, with which O = D_P Q S + M R, and loads the scales of the
// products with a head's nodes. Each thread has a node.
#ifndef BOLE_KERNELS_CUDA_VERIFY_VERIFY_PATH_BUILDER_CUH_
#define BOLE_KERNELS_CUDA_VERIFY_VERIFY_PATH_BUILDER_CUH_

#include <cstdint>

#include "kernels/cuda/gdn/gdn_views.cuh"
#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/verify/tree_gates.cuh"
#include "kernels/cuda/verify/verify_path_shared.cuh"
#include "kernels/cuda/verify/verify_paths.cuh"
#include "kernels/cuda/wgmma.cuh"

namespace bole::cuda {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

class PathBuilder {
 public:
  __device__ PathBuilder(const GdnCoreParams& p, PathShared& s)
      : p_(p), s_(s), rows_(AddressOf(&s.rows)) {
    path_.node = static_cast<int>(threadIdx.x) % 128;
  }

  __device__ __forceinline__ void Run() {
    ClearRows();
    bool is_first = true;  // Whether this is the block's first item.
    bool begins = true;
#pragma unroll 1
    for (;;) {
      at_.header.WaitFull(s_.headers_full);
      const HeadHeader header = s_.headers[at_.header.stage];
      if (header.count == 0) break;
      if (begins) TakeTopology(header);
      PutGates(header);
      if (begins) KeepProductsOfPaths();
      Build(begins && !is_first);
      ArriveLanes(s_.columns_empty + at_.header.stage);  // And the header.
      begins = header.ends;
      if (begins) is_first = false;
      at_.header.Advance();
      at_.head.Advance();
      if (begins) at_.item.Advance();
    }
  }

 private:
  using Products = float[32];  // 64 rows by 64 rows, in a warpgroup.
  static constexpr int kWords = PathShared::kWords;

  // Reads the node's ancestors, for all heads that have the same rows.
  __device__ __forceinline__ void TakeTopology(const HeadHeader& header) {
    const int i = path_.node;
    uint32_t words[kWords];
    int length = 0;
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      words[w] =
          i < header.count ? MaskWord(p_.batch, header.first_row + i, i, w) : 0;
      length += __popc(words[w]);
    }
    if (length > kMaxPath) __trap();  // Violates RowBatch::max_path.
    path_.last = length - 1;
    path_.longest = __reduce_max_sync(~0u, path_.last);
    at_.item.Meet(&s_.item_ended);  // The previous item is no longer read.
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      s_.ancestors[i][w] = words[w];
    }
    PutPath(words, i, s_.products.path[i]);
    path_.nodes = s_.products.path[i];
    at_.item.Meet(&s_.topology_met);
  }

  // Loads the gates of the thread's node; they are zero after the tree's last
  // node.
  __device__ __forceinline__ void PutGates(const HeadHeader& header) {
    const int i = path_.node;
    float log_decay = 0;
    float beta = 0;
    float key = 0;
    float query = 0;
    if (i < header.count) {
      const int row = header.first_row + i;
      WaitForPrevious();
      const FactorRows<BFloat16> factors(p_.shape, p_.factors, p_.layer);
      log_decay = factors.log_decay(row, header.head);
      beta = factors.beta(row, header.head);
      key = factors.k_scale(row, header.key_head);
      query = p_.q_scale[static_cast<int64_t>(row) * p_.shape.key_heads +
                         header.key_head];
    }
    s_.log_decays[i] = log_decay;
    at_.head.Meet(&s_.log_decays_met);
    double sum = 0;
#pragma unroll 1
    for (int w = 0; w < kWords; ++w) {
      sum += PathSum(s_.log_decays + 32 * w, s_.ancestors[i][w]);
    }
    sum *= 1.4426950408889634;
    const float high = static_cast<float>(sum);
    const float decay = exp2f(high);
    auto& columns = s_.columns[at_.header.stage];
    columns.beta[i] = beta;
    columns.correction_scale[i] = beta * decay * key;
    columns.readout_scale[i] = decay * query;
    ArriveLanes(s_.columns_full + at_.header.stage);
    s_.nodes[i] = {.gamma = {high, static_cast<float>(sum - high)},
                   .k_scale = key,
                   .key_factor = beta * key};
    s_.q_scale[i] = query;
    at_.head.Meet(&s_.gates_met);
  }

  // Keeps the products of keys with keys and of queries with keys that paths
  // need, from blocks 11, 21 and 22.
  __device__ __forceinline__ void KeepProductsOfPaths() {
    at_.item.WaitFull(&s_.rows_full[0]);
    at_.item.WaitFull(&s_.rows_full[1]);
#pragma unroll 1
    for (int block = 0; block < 3; ++block) {
      const int first = min(block, 1) * kHalfNodes;
      const int column = block / 2 * kHalfNodes;
      Products keys;
      Products queries;
      MultiplyNodes(rows_, first, column, keys);
      MultiplyNodes(rows_, kLongNodes + first, column, queries);
      WgmmaWait<0>();
      WgmmaResults(keys);
      WgmmaResults(queries);
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int i = first + path_.node / 32 * kTileRows + TileRow(2 * h);
        const uint32_t* const ancestors = s_.ancestors[i];
        const uint32_t words[2] = {ancestors[column / 32],
                                   ancestors[column / 32 + 1]};
        const int place =
            column == 0 ? 0 : __popc(ancestors[0]) + __popc(ancestors[1]);
        KeepProducts(keys, queries, h, i, words, place, s_.products);
      }
    }
    ArriveWarp(&s_.rows_empty);
    at_.item.Meet(&s_.products_met);
  }

  __device__ __forceinline__ void Build(bool clears) {
    auto& couplings = s_.couplings;
    float m[kMaxPath];
    ScalePath(s_.products, s_.nodes, s_.q_scale[path_.node], path_, couplings,
              m);
    at_.head.Meet(&s_.couplings_met);
    SolvePath(couplings, path_, m);
    at_.head.WaitEmpty(&s_.matrix_empty);
    __syncwarp();
    if (clears) ClearRows();
    PutRow(m);
    FenceForAsync();
    ArriveWarp(&s_.matrix_full);
  }

  // Clears the node's rows of M, which may hold a tree with other paths.
  __device__ __forceinline__ void ClearRows() {
    const int node = path_.node;
    const int rows = node < kHalfNodes ? 1 : 2;
#pragma unroll 1
    for (int n = 0; n < rows * 8; ++n) {
      const int row = node + n / 8 * kHalfNodes;
      const int unit = (n + node) % 8;
      s_.matrix.part[0][row][unit] = s_.matrix.part[1][row][unit] = {};
    }
  }

  // Stores the node's row of M; columns from 64 on are stored 64 rows further.
  __device__ __forceinline__ void PutRow(const float (&m)[kMaxPath]) {
    const int i = path_.node;
    const uint32_t to = AddressOf(&s_.matrix.part[0][i][0]);
#pragma unroll
    for (int b = 0; b < kMaxPath; ++b) {
      if (b > path_.longest) continue;
      const int j = path_.At(b);
      const uint32_t at =
          to + (j & kHalfNodes) * 128 + ((j / 8 ^ i) % 8) * 16 + j % 8 * 2;
      uint32_t high;
      uint32_t low;
      SplitPair(m[b], 0, high, low);
      if (b <= path_.last) {
        StoreHalf(at, high);
        StoreHalf(at + sizeof(s_.matrix.part[0]), low);
      }
    }
  }
  __device__ static void StoreHalf(uint32_t at, uint32_t x) {
    asm volatile("st.shared.u16 [%0], %1;" ::"r"(at),
                 "h"(static_cast<uint16_t>(x))
                 : "memory");
  }

  const GdnCoreParams& p_;
  PathShared& s_;
  const uint32_t rows_;
  NodePath path_;
  struct {
    StageAt<kHeadStages> header;
    StageAt<1> head;
    StageAt<1> item;
  } at_;
};

#endif

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_VERIFY_VERIFY_PATH_BUILDER_CUH_
