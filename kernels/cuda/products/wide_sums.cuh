// What becomes of the sums of a product of many rows (wide_product.cu): they
// are added up over the blocks that have divided the columns, or gated, and
// written.
#ifndef BOLE_KERNELS_CUDA_PRODUCTS_WIDE_SUMS_CUH_
#define BOLE_KERNELS_CUDA_PRODUCTS_WIDE_SUMS_CUH_

#include <cstdint>

#include "kernels/cuda/cluster.cuh"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/products/wide_product.h"
#include "kernels/cuda/products/wide_ring.cuh"

namespace bole::cuda {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

template <typename T>
struct alignas(4 * sizeof(T)) Quad {
  T at[4];
};

__device__ inline void Add(const float4& d, float4& sum) {
  sum.x += d.x;
  sum.y += d.y;
  sum.z += d.z;
  sum.w += d.w;
}

// All threads of both blocks of a pair call it when they have read their rings.
__device__ inline void MeetPair() {
  ReleaseToCluster();
  WaitForCluster();
}

// Used by the threads that multiply. D is what wgmma.cuh calls d.
template <int kN>
struct WideSums {
  static constexpr int kBlocks = kN / 8;  // Blocks of D's columns.
  // Each block of a pair writes half of the rows of x, which are D's columns.
  static constexpr int kHalf = kBlocks / 2;

  const WideTask& t;
  const WideShare& share;
  // Where the rings were: for a pair, [kHalf, num_threads()] sums as the
  // threads of the other block have them; after them [rows of x that are this
  // block's, SumStride()].
  float4* received;
  const void* sums_received;  // A barrier, which expects them.

  __device__ static int thread() { return static_cast<int>(threadIdx.x); }
  __device__ static int group() { return thread() / kGroupThreads; }
  __device__ int num_threads() const { return t.plan.groups * kGroupThreads; }
  __device__ int NumReceived() const {
    return t.plan.splits > 1 ? kHalf * num_threads() : 0;
  }
  __device__ float* sums() const {
    return reinterpret_cast<float*>(received + NumReceived());
  }
  __device__ int first_row() const { return share.part * kN / t.plan.splits; }
  __device__ int num_wanted() const { return min(*t.count, t.num_rows); }
  // How many sums a warpgroup has in a row of `sums`.
  __device__ int group_sums() const {
    return t.gated ? kMaxBoxRows / 2 : kMaxBoxRows;
  }
  __device__ int quads() const { return t.plan.groups * group_sums() / 4; }
  __device__ int stride() const {
    return SumStride(t.plan.groups, group_sums());
  }

  // Row n of out, from column `row` on.
  template <typename T>
  __device__ T* At(int n, int row) const {
    return static_cast<T*>(t.out) + static_cast<int64_t>(n) * t.rows + row;
  }
  template <typename T>
  __device__ void Write(int n, int row, float value) const {
    T* out = At<T>(n, row);
    *out = FromFloat<T>(t.accumulate ? ToFloat(*out) + value : value);
  }
  // Writes what the thread holds of the tile that begins at column
  // first_output.
  template <typename T>
  __device__ void WriteTile(int first_output, const float (&d)[kN / 2]) const {
    const int lane = thread() % 32;
    const int in_group = thread() % kGroupThreads / 32 * 16 + lane / 4;
    const int wanted = num_wanted();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int r = in_group + 8 * half;
      const int row = first_output + group() * t.plan.group_rows + r;
      if (r >= t.plan.group_rows || row >= t.rows) continue;
#pragma unroll
      for (int j = 0; j < kBlocks; ++j) {
        const int n = 8 * j + 2 * (lane % 4);
        if (n < wanted) Write<T>(n, row, d[4 * j + 2 * half]);
        if (n + 1 < wanted) Write<T>(n + 1, row, d[4 * j + 2 * half + 1]);
      }
    }
  }

  template <int kCount>
  __device__ void LeaveSums(const float (&d)[4 * kCount]) const {
    const int lane = thread() % 32;
    const int warp = thread() / 32;
    float* to = sums() + 2 * (lane % 4) * stride() + warp * 16 + lane / 4;
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        to[(8 * j + i % 2) * stride() + i / 2 * 8] = d[4 * j + i];
      }
    }
  }
  // Leaves the sums of a gated product. A thread's first rows are gates, its
  // second ones the ups of the same outputs.
  __device__ void LeaveGated(const float (&d)[kN / 2]) const {
    const int lane = thread() % 32;
    const int warp = thread() / 32;
    float* to = sums() + 2 * (lane % 4) * stride() + warp * 8 + lane / 4;
#pragma unroll
    for (int j = 0; j < kBlocks; ++j) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        to[(8 * j + i) * stride()] = Silu(d[4 * j + i]) * d[4 * j + 2 + i];
      }
    }
  }

  // Leaves the sums of a pair: sends what the other block writes, and adds what
  // the other block sends.
  __device__ void LeaveHalf(const float (&d)[kN / 2]) const {
    MeetPair();
    const bool is_first = share.part == 0;
    const uint32_t to = AddressInBlock(received + thread(), 1 - share.part);
    const uint32_t barrier = AddressInBlock(sums_received, 1 - share.part);
    float mine[4 * kHalf];
#pragma unroll
    for (int j = 0; j < kHalf; ++j) {
      float sent[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float first = d[4 * j + i];
        const float second = d[4 * (j + kHalf) + i];
        mine[4 * j + i] = is_first ? first : second;
        sent[i] = is_first ? second : first;
      }
      const float4 x = make_float4(sent[0], sent[1], sent[2], sent[3]);
      SendAsync(to + j * num_threads() * sizeof(float4),
                reinterpret_cast<const uint4&>(x), barrier);
    }
    WaitBarrier(AddressOf(sums_received), 0);
#pragma unroll
    for (int j = 0; j < kHalf; ++j) {
      const float4 other = received[j * num_threads() + thread()];
      mine[4 * j] += other.x;
      mine[4 * j + 1] += other.y;
      mine[4 * j + 2] += other.z;
      mine[4 * j + 3] += other.w;
    }
    LeaveSums<kHalf>(mine);
  }
  __device__ void Leave(const float (&d)[kN / 2]) const {
    if (t.plan.splits > 1) {
      LeaveHalf(d);
      return;
    }
    SyncConsumers();  // The rings have been read.
    if (t.gated) {
      LeaveGated(d);
    } else {
      LeaveSums<kBlocks>(d);
    }
  }
  __device__ void SyncConsumers() const { SyncThreads(1, num_threads()); }

  // Four outputs of the tile, and a row of x.
  struct Piece {
    int n;
    int quad;  // In a row of `sums`.
    int row;
    int size;  // 0 .. 4
  };
  __device__ Piece PieceOf(int i) const {
    const WidePlan& p = t.plan;
    const int quad = i % quads();
    const int r = quad * 4 % group_sums();
    const int row =
        share.first_output + quad * 4 / group_sums() * p.group_outputs + r;
    const int left = min(p.group_outputs - r, t.rows - row);
    return {first_row() + i / quads(), quad, row, max(0, min(4, left))};
  }
  __device__ float4 SumOf(const Piece& piece) const {
    return *reinterpret_cast<const float4*>(
        sums() + (piece.n - first_row()) * stride() + 4 * piece.quad);
  }
  // Pieces that a thread adds up at a time, so that their loads overlap.
  static constexpr int kBatch = 4;
  template <typename T>
  struct Batch {
    Piece piece[kBatch];
    Quad<T> old[kBatch];  // What is there, to add to.
  };
  // Loads pieces first + k * step, as far as they are below size.
  template <typename T>
  __device__ Batch<T> LoadBatch(int first, int step, int size) const {
    Batch<T> batch;
#pragma unroll
    for (int k = 0; k < kBatch; ++k) {
      Piece& piece = batch.piece[k];
      piece = PieceOf(first + k * step);
      if (first + k * step >= size) piece.size = 0;
      if (!t.accumulate || piece.size == 0) continue;
      batch.old[k] =
          *reinterpret_cast<const Quad<T>*>(At<T>(piece.n, piece.row));
    }
    return batch;
  }
  template <typename T>
  __device__ void WriteBatch(const Batch<T>& batch) const {
    float4 sum[kBatch] = {};
#pragma unroll
    for (int k = 0; k < kBatch; ++k) {
      if (batch.piece[k].size > 0) sum[k] = SumOf(batch.piece[k]);
    }
#pragma unroll
    for (int k = 0; k < kBatch; ++k) {
      const Piece& piece = batch.piece[k];
      if (piece.size == 0) continue;
      const Quad<T>& old = batch.old[k];
      if (t.accumulate) {
        Add(make_float4(ToFloat(old.at[0]), ToFloat(old.at[1]),
                        ToFloat(old.at[2]), ToFloat(old.at[3])),
            sum[k]);
      }
      *reinterpret_cast<Quad<T>*>(At<T>(piece.n, piece.row)) = {
          FromFloat<T>(sum[k].x), FromFloat<T>(sum[k].y),
          FromFloat<T>(sum[k].z), FromFloat<T>(sum[k].w)};
    }
  }
  template <typename T>
  __device__ void WritePiece(const Piece& piece) const {
    const float4 sum = SumOf(piece);
    const float values[4] = {sum.x, sum.y, sum.z, sum.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (i < piece.size) Write<T>(piece.n, piece.row + i, values[i]);
    }
  }

  // Writes what Leave() has left, once all threads that multiply have called
  // it.
  template <typename T>
  __device__ void WriteSums() const {
    const WidePlan& p = t.plan;
    const int end = min(first_row() + kN / p.splits, num_wanted());
    const int size = (end - first_row()) * quads();
    const int step = num_threads();
    if (t.rows % 4 != 0 || p.group_outputs % 4 != 0) {
      SyncConsumers();
      for (int i = thread(); i < size; i += step) WritePiece<T>(PieceOf(i));
      return;
    }
    const Batch<T> first = LoadBatch<T>(thread(), step, size);
    SyncConsumers();
    WriteBatch(first);
    for (int i = thread() + kBatch * step; i < size; i += kBatch * step) {
      WriteBatch(LoadBatch<T>(i, step, size));
    }
  }
};

#endif

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_PRODUCTS_WIDE_SUMS_CUH_
