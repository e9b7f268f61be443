// Verification of trees in one launch: the closed form, solved by substitution
// over 16-row blocks, on tensor cores.
//
// A block of threads has one value head, or some of its value columns, of one
// request. All of its warps build the matrices over the nodes (TreeMatrices).
// Then each of them is alone with 16 value columns c, rows of the stored state
// [dv, dk], and works with transposes, [columns, nodes]:
//
//   R^T = (V - D_P K S)^T D_beta     state in two bfloat16 parts times raw k
//   U^T = R^T (I + G)^-T             block by block, in registers
//   O^T = (D_P Q S)^T + U^T C^T
//
// The state is a left operand as it lies in memory, sums become left operands
// without leaving their registers, and no warp waits for another.
#include "kernels/cuda/gdn_verify_fused.h"

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/check.h"
#include "kernels/cuda/gdn_views.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/tree_gates.cuh"
#include "kernels/cuda/tree_matrices.cuh"

namespace bole::cuda {
namespace {

constexpr int kMaxNodes = 128;
constexpr int kValueDim = 128;
constexpr int kWarps = 8;
constexpr int kThreads = 32 * kWarps;
constexpr int kColumns = kTileRows;  // Value columns of a warp.
constexpr int kSlotBytes = 2048;

template <int kNodeBlocks, int kColumnWarps, int kRingSlots>
struct Config {
  static constexpr int kBlocks = kNodeBlocks;  // Of 16 nodes, at most.
  static constexpr int kNodes = kBlocks * kTileRows;
  static constexpr int kValueWarps = kColumnWarps;  // Warps with columns.
  static constexpr int kTiles = kValueDim / kColumns / kValueWarps;
  static constexpr int kSlots = kRingSlots;
  // Of a warp's operands, parts of a slot's size: 32 key columns of the state
  // each, then 64 nodes of v each.
  static constexpr int kStateParts = 4;
  static constexpr int kParts = kStateParts + (kBlocks + 3) / 4;
  static constexpr int kBlocksPerPart = 4;
};

template <typename C>
struct Shared {
  NodeRows<C::kNodes> keys;
  NodeRows<C::kNodes> queries;
  TreeMatrices<C::kBlocks> matrices;
  // Parts on their way from memory, a ring for each warp; then its outputs.
  alignas(128) unsigned char ring[C::kValueWarps][C::kSlots * kSlotBytes];
  TreeGates<C::kNodes> gates;
};

// The work of one warp on its 16 value columns.
template <typename C>
class ColumnsOfHead {
 public:
  __device__ ColumnsOfHead(const GdnCoreParams& p, int request,
                           const HeadTree<BFloat16>& tree, int column,
                           Shared<C>& shared, int num_blocks)
      : shared_(shared),
        ring_(SharedAddress(shared.ring[threadIdx.x / 32])),
        num_blocks_(num_blocks),
        count_(tree.count),
        has_state_(p.batch.committed[request] > 0),
        state_(HeadState(p.shape, p.states,
                         has_state_ ? p.batch.slot[request] : 0, p.layer,
                         tree.head) +
               column * kKeyDim),
        v_(tree.factors.v(tree.first, tree.head) + column),
        out_(As<BFloat16>(p.out) +
             (static_cast<int64_t>(tree.first) * p.shape.value_heads +
              tree.head) *
                 kValueDim +
             column),
        row_stride_(static_cast<int64_t>(p.shape.value_heads) * kValueDim) {}

  __device__ void StartCopies() {
#pragma unroll
    for (int part = 0; part < C::kSlots; ++part) CopyPart(part);
  }

  // The block must have synchronised since all else was written.
  __device__ void Run() {
#pragma unroll
    for (int part = 0; part < C::kStateParts; ++part) {
      WaitForPart();
      MultiplyState(part);
      NextPart(part);
    }
#pragma unroll
    for (int part = C::kStateParts; part < C::kParts; ++part) {
      WaitForPart();
      FormRightSide(part);
      NextPart(part);
    }
    Solve();
    Store();
  }

 private:
  __device__ uint32_t Slot(int part) const {
    return ring_ + part % C::kSlots * kSlotBytes;
  }
  __device__ static int Lane() { return threadIdx.x % 32; }

  // One group of copies for each part, and an empty one beyond the last.
  __device__ void CopyPart(int part) {
    if (part < C::kStateParts) {
      CopyState(part);
    } else if (part < C::kParts) {
      CopyValues(part);
    }
    CommitCopies();
  }
  __device__ void WaitForPart() {
    WaitForCopies<C::kSlots - 1>();
    __syncwarp();
  }
  __device__ void NextPart(int part) {
    __syncwarp();
    CopyPart(part + C::kSlots);
  }

  // [16 columns, 32 key columns], 16-byte chunks permuted within each row.
  __device__ void CopyState(int part) {
    const int chunk = Lane() % 8;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = i * 4 + Lane() / 8;
      CopyAsync16(Slot(part) + row * 128 + (chunk ^ row % 4 * 2) * 16,
                  state_ + row * kKeyDim + part * 32 + chunk * 4, has_state_);
    }
  }
  // [64 nodes, 16 columns], the halves of a row swapped in four of eight rows.
  __device__ static uint32_t ValueOffset(int node, int half) {
    return node * 32 + (half ^ node / 4 % 2) * 16;
  }
  __device__ void CopyValues(int part) {
    constexpr int kPartNodes = C::kNodes < C::kBlocksPerPart * kTileRows
                                   ? C::kNodes
                                   : C::kBlocksPerPart * kTileRows;
    const int first = (part - C::kStateParts) * kPartNodes;
#pragma unroll
    for (int i = 0; i < kPartNodes / 16; ++i) {
      const int n = i * 16 + Lane() / 2;
      const bool valid = first + n < count_;
      CopyAsync16(Slot(part) + ValueOffset(n, Lane() % 2),
                  v_ + (valid ? first + n : 0) * row_stride_ + Lane() % 2 * 8,
                  valid);
    }
  }

  // 16 key columns of the state as a left operand in two parts.
  __device__ void LoadState(int part, int step, SplitOperand& a) const {
    const int g = Lane() / 4;
    const int t = Lane() % 4;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = g + i % 2 * 8;
      const int chunk = step * 4 + i / 2 * 2 + t / 2;
      const uint32_t address =
          Slot(part) + row * 128 + (chunk ^ row % 4 * 2) * 16 + t % 2 * 8;
      float x;
      float y;
      asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];"
                   : "=f"(x), "=f"(y)
                   : "r"(address));
      SplitPair(x, y, a.high[i], a.low[i]);
    }
  }

  __device__ static void MultiplyAddRows(TileSum& sum, const SplitOperand& a,
                                         const NodeRows<C::kNodes>& rows,
                                         int block, int step) {
    uint32_t b[4];
    rows.LoadRight(block, step, b);
    MultiplyAdd(sum[0], a.high, b[0], b[1]);
    MultiplyAdd(sum[1], a.high, b[2], b[3]);
    MultiplyAdd(sum[0], a.low, b[0], b[1]);
    MultiplyAdd(sum[1], a.low, b[2], b[3]);
  }

  // S k and S q, raw.
  __device__ void MultiplyState(int part) {
#pragma unroll
    for (int s = 0; s < 2; ++s) {
      SplitOperand a;
      LoadState(part, s, a);
#pragma unroll
      for (int block = 0; block < C::kBlocks; ++block) {
        if (block >= num_blocks_) break;
        MultiplyAddRows(u_[block], a, shared_.keys, block, part * 2 + s);
        MultiplyAddRows(o_[block], a, shared_.queries, block, part * 2 + s);
      }
    }
  }

  // u = beta (v - exp(Gamma) S k), o = exp(Gamma) S q of the part's nodes.
  __device__ void FormRightSide(int part) {
    const int first = (part - C::kStateParts) * C::kBlocksPerPart;
#pragma unroll
    for (int b = 0; b < C::kBlocksPerPart && b < C::kBlocks; ++b) {
      if (first + b >= num_blocks_) break;
      // Of nodes 0 .. 7 and 8 .. 15, columns 0 .. 7 and 8 .. 15 each.
      uint32_t v[4];
      LoadTransposed(
          Slot(part) + ValueOffset(b * kTileRows + Lane() % 8 + Lane() / 16 * 8,
                                   Lane() / 8 % 2),
          v);
      FormBlock(first + b, v);
    }
  }
  __device__ void FormBlock(int block, const uint32_t (&v)[4]) {
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const int node = block * kTileRows + TileColumn(n, r);
        const uint32_t pair = v[n * 2 + r / 2];
        const float value =
            __uint_as_float(r % 2 == 0 ? pair << 16 : pair & 0xffff0000u);
        const TreeGates<C::kNodes>& gates = shared_.gates;
        u_[block][n][r] = gates.beta[node] * value -
                          gates.correction_scale[node] * u_[block][n][r];
        o_[block][n][r] *= gates.readout_scale[node];
      }
    }
  }

  // Each block of U is taken off the right sides behind it as soon as it is
  // known.
  __device__ void Solve() {
    const auto& solve = shared_.matrices.solve;
    const auto& readout = shared_.matrices.readout;
#pragma unroll
    for (int j = 0; j < C::kBlocks; ++j) {
      if (j >= num_blocks_) break;
      SplitOperand u;
      SplitTile(u_[j], u);
      MultiplyAddBlock(u_[j], u, solve[BlockIndex{j, j}.Number()]);
      SplitTile(u_[j], u);
#pragma unroll
      for (int i = j; i < C::kBlocks; ++i) {
        if (i >= num_blocks_) break;
        const int number = BlockIndex{i, j}.Number();
        if (i > j) MultiplyAddBlock(u_[i], u, solve[number]);
        MultiplyAddBlock(o_[i], u, readout[number]);
      }
    }
  }

  // Through shared memory, for stores of 16 bytes.
  __device__ void Store() {
    unsigned char* const staged = shared_.ring[threadIdx.x / 32];
#pragma unroll
    for (int block = 0; block < C::kBlocks; ++block) {
      if (block >= num_blocks_) break;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float* pair = &o_[block][i / 2][i % 2 * 2];
        const int node = block * kTileRows + i / 2 * 8 + Lane() / 4;
        *reinterpret_cast<uint32_t*>(staged + ValueOffset(node, i % 2) +
                                     Lane() % 4 * 4) =
            Transposed(PackBFloat16(pair[0], pair[1]));
      }
    }
    __syncwarp();
    for (int node = Lane() / 2; node < count_; node += 16) {
      *reinterpret_cast<uint4*>(out_ + node * row_stride_ + Lane() % 2 * 8) =
          *reinterpret_cast<const uint4*>(staged +
                                          ValueOffset(node, Lane() % 2));
    }
  }

  Shared<C>& shared_;
  const uint32_t ring_;
  const int num_blocks_;
  const int count_;
  const bool has_state_;
  const float* const state_;    // [16, 128] within [dv, dk].
  const BFloat16* const v_;     // Of the first node.
  BFloat16* const out_;         // Of the first node.
  const int64_t row_stride_;    // Of v and out.
  TileSum u_[C::kBlocks] = {};  // R^T, then U^T.
  TileSum o_[C::kBlocks] = {};  // O^T
};

// Grid: value tiles within value heads, requests.
template <typename C, int kBlocksPerSm>
__global__ void __launch_bounds__(kThreads, kBlocksPerSm)
    FusedKernel(const __grid_constant__ GdnCoreParams p) {
  extern __shared__ __align__(128) unsigned char memory[];
  Shared<C>& shared = *reinterpret_cast<Shared<C>*>(memory);
  WaitForPrevious();
  StartNext();
  const int request = blockIdx.y;
  const HeadTree<BFloat16> tree(p, request, blockIdx.x / C::kTiles);
  if (tree.count <= 0) return;
  if (tree.count > C::kNodes) __trap();
  const int num_blocks = (tree.count + kTileRows - 1) / kTileRows;
  const int warp = threadIdx.x / 32;
  const bool has_columns = warp < C::kValueWarps;

  const int64_t stride = p.shape.key_width();
  const int padded = num_blocks * kTileRows;
  shared.keys.template LoadAsync<kThreads>(
      tree.factors.k(tree.first, tree.key_head), stride, tree.count, padded);
  shared.queries.template LoadAsync<kThreads>(
      As<BFloat16>(p.q) + tree.first * stride + tree.key_head * kKeyDim, stride,
      tree.count, padded);
  CommitCopies();
  const int column =
      (static_cast<int>(blockIdx.x) % C::kTiles * C::kValueWarps +
       (has_columns ? warp : 0)) *
      kColumns;
  ColumnsOfHead<C> columns(p, request, tree, column, shared, num_blocks);
  if (has_columns) {
    columns.StartCopies();
    WaitForCopies<C::kSlots>();
  } else {
    WaitForCopies<0>();
  }
  if (warp == kWarps - 1) shared.gates.Load(p, tree);
  __syncthreads();
  shared.matrices.template Build<kWarps>(shared.keys, shared.queries,
                                         shared.gates, num_blocks);
  __syncthreads();
  if (has_columns) columns.Run();
}

template <typename C, int kBlocksPerSm>
absl::Status LaunchFused(const GdnCoreParams& p, const Launch& on) {
  const auto kernel = &FusedKernel<C, kBlocksPerSm>;
  constexpr int kBytes = sizeof(Shared<C>);
  const absl::Status raised =
      ToStatus(cudaFuncSetAttribute(
                   kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes),
               "shared memory of GdnVerify");
  if (!raised.ok()) return raised;
  return LaunchDependent(
      "GdnVerify", kernel,
      {.grid = dim3(p.shape.value_heads * C::kTiles, p.batch.max_requests),
       .block = dim3(kThreads),
       .shared_bytes = kBytes},
      on, p);
}

// Room for so many nodes a tree.
int NodeCapacity(const RowBatch& batch) {
  return batch.mask_words > 0 ? std::min(32 * batch.mask_words, batch.rows.max)
                              : std::min(batch.rows.max, kMaxNodes);
}

}  // namespace

bool CanVerifyFused(const GdnCoreParams& p, const Launch& on) {
  return on.type == ElementType::kBFloat16 && p.solver == TreeSolver::kBlocks &&
         p.shape.key_dim == kKeyDim && p.shape.value_dim == kValueDim &&
         NodeCapacity(p.batch) <= kMaxNodes;
}

absl::Status GdnVerifyFused(const GdnCoreParams& p, const Launch& on) {
  // With few heads, several blocks share one.
  const bool few = p.shape.value_heads * p.batch.max_requests <= 64;
  const int nodes = NodeCapacity(p.batch);
  if (nodes <= 32) {
    return few ? LaunchFused<Config<2, 2, 4>, 2>(p, on)
               : LaunchFused<Config<2, 8, 3>, 3>(p, on);
  }
  if (nodes <= 64) {
    return few ? LaunchFused<Config<4, 2, 4>, 2>(p, on)
               : LaunchFused<Config<4, 8, 3>, 2>(p, on);
  }
  return few ? LaunchFused<Config<8, 2, 4>, 1>(p, on)
             : LaunchFused<Config<8, 8, 4>, 1>(p, on);
}

}  // namespace bole::cuda
