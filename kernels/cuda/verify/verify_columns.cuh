// The work of one warp of fused verification on 16 value columns of a head: the
// stream of operands, and the products, which are transposed, [columns, nodes].
#ifndef BOLE_KERNELS_CUDA_VERIFY_VERIFY_COLUMNS_CUH_
#define BOLE_KERNELS_CUDA_VERIFY_VERIFY_COLUMNS_CUH_

#include <cstdint>

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/verify/tree_gates.cuh"
#include "kernels/cuda/verify/tree_matrices.cuh"

namespace bole::cuda {

constexpr int kValueDim = 128;
constexpr int kColumns = kTileRows;  // Value columns of a warp.
constexpr int kSlotBytes = 2048;

// A warp's operands of one head after another come in parts of a slot's size:
// 32 key columns of the state each, then 64 nodes of v each.
constexpr int kStateParts = 4;
constexpr int kPartBlocks = 4;  // Blocks of 16 nodes in a part of v.
constexpr int ValueParts(int blocks) {
  return (blocks + kPartBlocks - 1) / kPartBlocks;
}

// Streams the parts from global memory through a ring of kSlots slots.
// Releasing a slot starts the copy of the next part, which may be the next
// head's.
template <int kSlots, int kBlocks>
class ColumnStream {
 public:
  // `state` is [16, 128] of the first head, nullptr where it is zero; `v` the
  // 16 columns of the first node in it, nullptr where v is not wanted.
  __device__ ColumnStream(unsigned char* ring, const float* state,
                          const BFloat16* v, int64_t v_stride, int num_nodes,
                          int num_heads)
      : ring_(ring),
        state_(state),
        v_(v),
        v_stride_(v_stride),
        num_nodes_(num_nodes),
        heads_left_(num_heads) {
#pragma unroll
    for (int slot = 0; slot < kSlots; ++slot) {
      slot_ = slot;
      StartNextCopy();
    }
    slot_ = 0;
  }

  // Waits for the next part and returns its slot, in every lane. kHeld: the
  // number of slots handed out and not released.
  template <int kHeld>
  __device__ unsigned char* Take() {
    WaitForCopies<kSlots - 1 - kHeld>();
    __syncwarp();
    unsigned char* const slot = ring_ + taken_ * kSlotBytes;
    taken_ = taken_ + 1 == kSlots ? 0 : taken_ + 1;
    return slot;
  }

  // Releases the slot that was taken first.
  __device__ void Release() {
    __syncwarp();
    StartNextCopy();
    slot_ = slot_ + 1 == kSlots ? 0 : slot_ + 1;
  }

  // The offset of 8 columns of a node, `half` 0 or 1, within a part of v. The
  // halves are swapped in four of eight nodes, against bank conflicts.
  __device__ static int ValueOffset(int node, int half) {
    return node * 32 + (half ^ node / 4 % 2) * 16;
  }

 private:
  // Commits one group of copies for each part, and empty ones after the last.
  __device__ void StartNextCopy() {
    if (heads_left_ > 0) {
      unsigned char* const slot = ring_ + slot_ * kSlotBytes;
      if (part_ < kStateParts) {
        CopyState(SharedAddress(slot));
      } else if (v_ != nullptr) {
        CopyValues(SharedAddress(slot));
      }
      if (++part_ == kStateParts + ValueParts(kBlocks)) NextHead();
    }
    CommitCopies();
  }

  __device__ void NextHead() {
    part_ = 0;
    --heads_left_;
    if (state_ != nullptr) state_ += kValueDim * kKeyDim;
    if (v_ != nullptr) v_ += kValueDim;
  }

  // [16 columns, 32 key columns], 16-byte chunks permuted within each row.
  __device__ void CopyState(uint32_t slot) {
    const int lane = threadIdx.x % 32;
    const int chunk = lane % 8;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = i * 4 + lane / 8;
      CopyAsync16(slot + row * 128 + (chunk ^ row % 4 * 2) * 16,
                  state_ + row * kKeyDim + part_ * 32 + chunk * 4,
                  state_ != nullptr);
    }
  }

  // [64 nodes, 16 columns]
  __device__ void CopyValues(uint32_t slot) {
    constexpr int kNodes = 16 * (kBlocks < kPartBlocks ? kBlocks : kPartBlocks);
    const int lane = threadIdx.x % 32;
    const int first = (part_ - kStateParts) * kNodes;
#pragma unroll
    for (int i = 0; i < kNodes / 16; ++i) {
      const int n = i * 16 + lane / 2;
      const bool valid = first + n < num_nodes_;
      CopyAsync16(slot + ValueOffset(n, lane % 2),
                  v_ + (valid ? first + n : 0) * v_stride_ + lane % 2 * 8,
                  valid);
    }
  }

  unsigned char* const ring_;
  const float* state_;
  const BFloat16* v_;
  const int64_t v_stride_;
  const int num_nodes_;
  int heads_left_;  // Heads whose parts were not all started.
  int part_ = 0;    // The part to start next,
  int slot_ = 0;    // and the slot for it.
  int taken_ = 0;   // The next slot to hand out.
};

// Loads 16 key columns of a part of the state, `step` 0 or 1, as a left
// operand.
__device__ inline void LoadState(const unsigned char* slot, int step,
                                 SplitOperand& a) {
  const int lane = threadIdx.x % 32;
  const int t = lane % 4;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int row = lane / 4 + i % 2 * 8;
    const int chunk = step * 4 + i / 2 * 2 + t / 2;
    const float2 x = *reinterpret_cast<const float2*>(
        slot + row * 128 + (chunk ^ row % 4 * 2) * 16 + t % 2 * 8);
    SplitPair(x.x, x.y, a.high[i], a.low[i]);
  }
}

// The first kUsed sums += 16 key columns of the state, `step` of eight, times
// those of the rows.
template <int kUsed, int kNodes, int kBlocks>
__device__ void MultiplyState(const SplitOperand& a, int step,
                              const NodeRows<kNodes>& rows,
                              TileSum (&sums)[kBlocks]) {
#pragma unroll
  for (int block = 0; block < kUsed; ++block) {
    uint32_t b[4];
    rows.LoadRight(block, step, b);
    MultiplyAdd(sums[block][0], a.high, b[0], b[1]);
    MultiplyAdd(sums[block][1], a.high, b[2], b[3]);
    MultiplyAdd(sums[block][0], a.low, b[0], b[1]);
    MultiplyAdd(sums[block][1], a.low, b[2], b[3]);
  }
}

// sum = beta v - beta exp(Gamma) k_scale sum, for the nodes of block `block`,
// whose v is block `in_part` of the part in `slot`.
template <typename Head>
__device__ void FormRightSide(const unsigned char* slot, int in_part,
                              const Head& gates, int block, TileSum& sum) {
  const int lane = threadIdx.x % 32;
  // Nodes 0 .. 7 and 8 .. 15, with columns 0 .. 7 and 8 .. 15 each.
  uint32_t v[4];
  const int node = in_part * kTileRows + lane % 8 + lane / 16 * 8;
  LoadTransposed(
      SharedAddress(slot + ColumnStream<1, 1>::ValueOffset(node, lane / 8 % 2)),
      v);
#pragma unroll
  for (int n = 0; n < 2; ++n) {
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const int i = block * kTileRows + TileColumn(n, r);
      const uint32_t pair = v[n * 2 + r / 2];
      const float value =
          __uint_as_float(r % 2 == 0 ? pair << 16 : pair & 0xffff0000u);
      sum[n][r] = gates.beta[i] * value - gates.correction_scale[i] * sum[n][r];
    }
  }
}

// sums *= exp(Gamma) q_scale
template <int kUsed, typename Head>
__device__ void ScaleReadout(const Head& gates, TileSum (&sums)[kUsed]) {
#pragma unroll
  for (int block = 0; block < kUsed; ++block) {
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        sums[block][n][r] *=
            gates.readout_scale[block * kTileRows + TileColumn(n, r)];
      }
    }
  }
}

// Solves block j of U^T from its right side, from which the blocks before it
// have been subtracted.
template <int kUsed, typename Matrices>
__device__ void SolveBlock(const Matrices& matrices, int j,
                           TileSum (&right)[kUsed], SplitOperand& u) {
  SplitTile(right[j], u);
  MultiplyAddBlock(right[j], u, matrices.solve[BlockIndex{j, j}.Number()]);
  SplitTile(right[j], u);
}

// Applies block j of U to the right sides after it, and to the outputs.
template <int kUsed, typename Matrices>
__device__ void TakeOff(const Matrices& matrices, int j, const SplitOperand& u,
                        TileSum (&right)[kUsed]) {
#pragma unroll
  for (int i = j + 1; i < kUsed; ++i) {
    MultiplyAddBlock(right[i], u, matrices.solve[BlockIndex{i, j}.Number()]);
  }
}
template <int kUsed, typename Matrices>
__device__ void ReadOut(const Matrices& matrices, int j, const SplitOperand& u,
                        TileSum (&out)[kUsed]) {
#pragma unroll
  for (int i = j; i < kUsed; ++i) {
    MultiplyAddBlock(out[i], u, matrices.readout[BlockIndex{i, j}.Number()]);
  }
}

// Writes blocks of O^T from `first` on to a slot, in the layout of a part of v.
template <int kUsed>
__device__ void PutPart(const TileSum (&sums)[kUsed], int first,
                        unsigned char* slot) {
  const int lane = threadIdx.x % 32;
  using Stream = ColumnStream<1, 1>;
#pragma unroll
  for (int b = 0; b < kPartBlocks; ++b) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (first + b >= kUsed) break;
      const float* pair = &sums[first + b][i / 2][i % 2 * 2];
      const int node = b * kTileRows + i / 2 * 8 + lane / 4;
      *reinterpret_cast<uint32_t*>(slot + Stream::ValueOffset(node, i % 2) +
                                   lane % 4 * 4) =
          Transposed(PackBFloat16(pair[0], pair[1]));
    }
  }
  __syncwarp();
}

// Does the same, and stores the part from there to global memory, 16 bytes at a
// time. `out`: the 16 columns of the tree's first node.
template <int kUsed>
__device__ void StorePart(const TileSum (&sums)[kUsed], int first,
                          unsigned char* slot, BFloat16* out, int64_t stride,
                          int num_nodes) {
  PutPart(sums, first, slot);
  using Stream = ColumnStream<1, 1>;
  const int lane = threadIdx.x % 32;
  const int begin = first * kTileRows;
#pragma unroll
  for (int n = lane / 2; n < kPartBlocks * kTileRows; n += 16) {
    if (begin + n >= num_nodes) break;
    *reinterpret_cast<uint4*>(out + (begin + n) * stride + lane % 2 * 8) =
        *reinterpret_cast<const uint4*>(slot +
                                        Stream::ValueOffset(n, lane % 2));
  }
}

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_VERIFY_VERIFY_COLUMNS_CUH_
