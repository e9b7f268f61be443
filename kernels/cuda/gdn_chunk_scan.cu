// The states from chunk to chunk (Eq. 2 and 10), and every row's output. One
// block for each request, value head and half of the head's values: a warp
// loads, a warpgroup computes.
//
// All is transposed: the state S [64 of dv, dk] is in registers as the
// accumulator of S += U^T K, and is the left operand of S K^T and S Q^T; so are
// U and R. Nothing but the inputs passes through shared memory. Raw keys and
// queries are exact as bfloat16; a left operand is a sum of two, and so are
// X - I and C, which leaves 2^-16 of relative error.
#include <cstdint>
#include <type_traits>
#include <utility>

#include "kernels/cuda/bf16x8.cuh"
#include "kernels/cuda/check.h"
#include "kernels/cuda/chunk_products.cuh"
#include "kernels/cuda/chunk_ring.cuh"
#include "kernels/cuda/chunk_tiles.cuh"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/gdn_chunks.cuh"
#include "kernels/cuda/gdn_chunks.h"
#include "kernels/cuda/gdn_views.cuh"
#include "kernels/cuda/launch.cuh"

namespace bole::cuda {
namespace {

constexpr int kReaders = 4;  // Warps.
constexpr int kThreads = 32 * (kReaders + 1);
constexpr int kStages = 3;
constexpr int kDim = 128;
constexpr int kTileValues = 64;
constexpr int kTileBytes = kChunkRows * kTileRowBytes;
constexpr int kHalfBytes = 2 * kTileBytes;

struct alignas(1024) Stage {
  // For each half of dk: the keys of all rows, then the queries.
  unsigned char rows[2][kHalfBytes];
  unsigned char values[kTileBytes];  // Later the outputs.
  alignas(1024) ChunkRecord record;
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

struct Workspace {
  Stage stages[kStages];
  Ring<kStages, kReaders> ring;
};

// What a block works on.
struct HeadTile {
  int request;
  int head;
  int key_head;
  int first_value;  // Of 64.
  ChunkRange chunks;
};

// f(0) .. f(kCount - 1), with constants.
template <typename F, int... kSteps>
__device__ __forceinline__ void ForSteps(
    const F& f, std::integer_sequence<int, kSteps...> /*steps*/) {
  (f(std::integral_constant<int, kSteps>()), ...);
}
template <int kCount, typename F>
__device__ __forceinline__ void ForSteps(const F& f) {
  ForSteps(f, std::make_integer_sequence<int, kCount>());
}

// One lane's share of the rows of chunk i, zeros behind the last.
__device__ void LoadRows(const GdnCoreParams& p, const HeadTile& tile, int i,
                         Stage& stage) {
  const FactorRows<BFloat16> factors(p.shape, p.factors, p.layer);
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int vector = lane % 8;
  const int first_row = tile.chunks.first_row_of(i);
  const int count = tile.chunks.rows_of(i);
  const uint32_t rows = SharedBytes(stage.rows);
  const uint32_t values = SharedBytes(stage.values);
#pragma unroll 4
  for (int r = lane / 8; r < kChunkRows; r += 4) {
    const bool is_there = r < count;
    const int row = first_row + (is_there ? r : 0);
    const int64_t key_row =
        static_cast<int64_t>(row) * p.shape.key_heads + tile.key_head;
    const BFloat16* k = factors.k(row, tile.key_head) + vector * kVector;
    const BFloat16* q = As<BFloat16>(p.q) + key_row * kDim + vector * kVector;
    const BFloat16* v =
        factors.v(row, tile.head) + tile.first_value + vector * kVector;
    const int at = TileOffset(r, vector);
    CopyVectorAsync(rows + at, k, is_there);
    CopyVectorAsync(rows + kHalfBytes + at, k + 64, is_there);
    CopyVectorAsync(rows + kTileBytes + at, q, is_there);
    CopyVectorAsync(rows + kHalfBytes + kTileBytes + at, q + 64, is_there);
    CopyVectorAsync(values + at, v, is_there);
  }
}

__device__ void LoadChunks(const GdnCoreParams& p, const HeadTile& tile,
                           const ChunkRecord* records, Workspace& w) {
  for (int i = 0; tile.chunks.rows_of(i) > 0; ++i) {
    Stage& stage = w.stages[i % kStages];
    w.ring.WaitEmpty(i);
    if (threadIdx.x % 32 == 0) {
      const int64_t number = tile.chunks.first_number + i;
      w.ring.CopyBytes(i, &stage.record,
                       records + number * p.shape.value_heads + tile.head,
                       sizeof(ChunkRecord));
    }
    LoadRows(p, tile, i, stage);
    w.ring.FinishCopies(i);
  }
}

// Where a thread's elements of an accumulator [64, ...] are: element
// 4 j + 2 h + e in row row() + 8 h, column 8 j + column() + e.
__device__ int Row() {
  return static_cast<int>(threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4);
}
__device__ int Column() { return static_cast<int>(threadIdx.x) % 4 * 2; }

__device__ float2 PairAt(const float* values, int column) {
  return *reinterpret_cast<const float2*>(values + column);
}

__device__ __forceinline__ void LoadState(const float* from, bool from_zero,
                                          float (&s)[64]) {
#pragma unroll
  for (int j = 0; j < 16; ++j) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float2 pair = make_float2(0, 0);
      if (!from_zero) {
        pair = PairAt(from + (Row() + 8 * h) * kDim, 8 * j + Column());
      }
      s[4 * j + 2 * h] = pair.x;
      s[4 * j + 2 * h + 1] = pair.y;
    }
  }
}

__device__ __forceinline__ void StoreState(const float (&s)[64], float* to) {
#pragma unroll
  for (int j = 0; j < 16; ++j) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      *reinterpret_cast<float2*>(to + (Row() + 8 * h) * kDim + 8 * j +
                                 Column()) =
          make_float2(s[4 * j + 2 * h], s[4 * j + 2 * h + 1]);
    }
  }
}

// x = [S K^T, S Q^T] of the raw rows.
__device__ __forceinline__ void MultiplyState(const float (&s)[64],
                                              const Stage& stage,
                                              float (&x)[128 / 2]) {
  const uint32_t rows = SharedBytes(stage.rows);
  ForSteps<8>([&](auto step) {
    constexpr int kStep = decltype(step)::value;
    const SplitFragment a = SplitFragment::Of<8 * kStep>(s);
    const uint64_t b =
        TileOperand(rows + kStep / 4 * kHalfBytes + kStep % 4 * 32);
    BeginProducts();
    MultiplyFragment<128, 0, false>(x, a.high, b, kStep > 0);
    MultiplyFragment<128, 0, false>(x, a.low, b, true);
  });
  CommitProducts();
  WaitForProducts<0>();
}

// The address of a lane's row for the transposed access of four 8x8 blocks:
// rows 8 j and 8 (j + 1) of a tile, the warp's 16 columns.
__device__ uint32_t BlockAddress(const void* tile, int j) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int vector = static_cast<int>(threadIdx.x / 32) * 2 + lane / 8 % 2;
  return SharedBytes(tile) + TileOffset(8 * (j + lane / 16) + lane % 8, vector);
}

// R = D_beta (V - D_P K S), over S K^T.
__device__ __forceinline__ void BuildRightSide(const Stage& stage,
                                               float (&x)[64]) {
#pragma unroll
  for (int j = 0; j < 8; j += 2) {
    uint32_t v[4];
    asm volatile(
        "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, "
        "[%4];"
        : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
        : "r"(BlockAddress(stage.values, j)));
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      const int column = 8 * (j + n) + Column();
      const float2 beta = PairAt(stage.record.beta, column);
      const float2 factor = PairAt(stage.record.key_factor, column);
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        float* r = x + 4 * (j + n) + 2 * h;
        const uint32_t two = v[2 * n + h];
        r[0] = fmaf(-factor.x, r[0], beta.x * FirstOfTwo(two));
        r[1] = fmaf(-factor.y, r[1], beta.y * SecondOfTwo(two));
      }
    }
  }
}

// x[kAt ...] += u m^T, of a lower triangular m [64, 64] that is the sum of two
// tiles, and the fragments of u [64, 64].
template <int kAt>
__device__ __forceinline__ void MultiplyLower(const SplitFragment (&u)[4],
                                              const void* m_high,
                                              const void* m_low,
                                              float (&x)[64]) {
  BeginProducts();
  ForSteps<4>([&](auto step) {
    constexpr int kStep = decltype(step)::value;
    constexpr int kFirst = 16 * kStep;  // Rows of m that are not zero.
    constexpr int kSkip = kFirst * kTileRowBytes + 32 * kStep;
    const uint64_t high = TileOperand(SharedBytes(m_high) + kSkip);
    const uint64_t low = TileOperand(SharedBytes(m_low) + kSkip);
    constexpr int kColumns = 64 - kFirst;
    constexpr int kElement = kAt + kFirst / 2;
    MultiplyFragment<kColumns, kElement, false>(x, u[kStep].high, high, true);
    MultiplyFragment<kColumns, kElement, false>(x, u[kStep].low, high, true);
    MultiplyFragment<kColumns, kElement, false>(x, u[kStep].high, low, true);
  });
  CommitProducts();
}

__device__ __forceinline__ void Split(const float (&x)[64],
                                      SplitFragment (&fragments)[4]) {
  ForSteps<4>([&](auto step) {
    constexpr int kStep = decltype(step)::value;
    fragments[kStep] = SplitFragment::Of<8 * kStep>(x);
  });
}

// S <- exp(Gamma_end) S + (U^T D) K, with U in the first half of x.
__device__ __forceinline__ void AdvanceState(const float (&x)[64],
                                             const Stage& stage,
                                             float (&s)[64]) {
  const float decay = stage.record.decay;
#pragma unroll
  for (int i = 0; i < 64; ++i) s[i] *= decay;
  ForSteps<4>([&](auto step) {
    constexpr int kStep = decltype(step)::value;
    float u[8];
#pragma unroll
    for (int i = 0; i < 8; i += 2) {
      const int j = 2 * kStep + i / 4;
      const float2 factor = PairAt(stage.record.write_factor, 8 * j + Column());
      u[i] = factor.x * x[8 * kStep + i];
      u[i + 1] = factor.y * x[8 * kStep + i + 1];
    }
    const SplitFragment a = SplitFragment::Of<0>(u);
    const uint64_t b = TransposedOperand(
        SharedBytes(stage.rows) + 16 * kStep * kTileRowBytes, kHalfBytes);
    BeginProducts();
    MultiplyFragment<128, 0, true>(s, a.high, b, true);
    MultiplyFragment<128, 0, true>(s, a.low, b, true);
  });
  CommitProducts();
}

// O = D_P Q S + C U, in the second half of x, whose first is U. Waits for all
// products.
__device__ __forceinline__ void ReadOut(const Stage& stage, float (&x)[64]) {
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    const float2 factor = PairAt(stage.record.query_factor, 8 * j + Column());
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      x[32 + 4 * j + 2 * h] *= factor.x;
      x[32 + 4 * j + 2 * h + 1] *= factor.y;
    }
  }
  SplitFragment u[4];
  Split(x, u);
  MultiplyLower<32>(u, stage.record.c_high, stage.record.c_low, x);
  WaitForProducts<0>();
}

// Each warp turns its 16 values of all rows in the place of the inputs it has
// read, and stores them row by row.
__device__ __forceinline__ void StoreOut(const GdnCoreParams& p,
                                         const HeadTile& tile, int i,
                                         const float (&x)[64], Stage& stage) {
#pragma unroll
  for (int j = 0; j < 8; j += 2) {
    const float* o = x + 32 + 4 * j;
    asm volatile(
        "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, "
        "%4};" ::"r"(BlockAddress(stage.values, j)),
        "r"(PackTwo(o[0], o[1])), "r"(PackTwo(o[2], o[3])),
        "r"(PackTwo(o[4], o[5])), "r"(PackTwo(o[6], o[7]))
        : "memory");
  }
  __syncwarp();
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int vector = static_cast<int>(threadIdx.x / 32) * 2 + lane % 2;
  const int first_row = tile.chunks.first_row_of(i);
  const int count = tile.chunks.rows_of(i);
#pragma unroll
  for (int r = lane / 2; r < kChunkRows; r += 16) {
    if (r >= count) continue;
    const int64_t value_row =
        static_cast<int64_t>(first_row + r) * p.shape.value_heads + tile.head;
    StoreVector(
        As<BFloat16>(p.out) + value_row * kDim + tile.first_value +
            vector * kVector,
        *reinterpret_cast<const uint4*>(stage.values + TileOffset(r, vector)));
  }
}

__device__ void ComputeChunks(const GdnCoreParams& p, const HeadTile& tile,
                              Workspace& w) {
  float* state = HeadState(p.shape, p.states, p.batch.slot[tile.request],
                           p.layer, tile.head) +
                 tile.first_value * kDim;
  float s[64];
  LoadState(state, tile.chunks.first_position == 0, s);
#pragma unroll 1
  for (int i = 0; tile.chunks.rows_of(i) > 0; ++i) {
    Stage& stage = w.stages[i % kStages];
    w.ring.WaitFull(i);
    FenceShared();
    float x[64];  // S K^T, R, U | S Q^T, O
    MultiplyState(s, stage, x);
    BuildRightSide(stage, x);
    SplitFragment r[4];
    Split(x, r);
    MultiplyLower<0>(r, stage.record.x_high, stage.record.x_low, x);
    WaitForProducts<0>();
    AdvanceState(x, stage, s);
    ReadOut(stage, x);
    StoreOut(p, tile, i, x, stage);
    __syncwarp();
    if (threadIdx.x % 32 == 0) w.ring.Release(i);
  }
  StoreState(s, state);
}

#endif

// Grid: halves of the values, value heads, requests.
__global__ void __launch_bounds__(kThreads, 1)
    ScanChunksKernel(const __grid_constant__ GdnCoreParams p,
                     const ChunkRecord* records) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(1024) unsigned char memory[];
  Workspace& w = *reinterpret_cast<Workspace*>(memory);
  if (threadIdx.x == 0) w.ring.Init();
  __syncthreads();
  WaitForPrevious();
  StartNext();
  const int request = static_cast<int>(blockIdx.z);
  const int head = static_cast<int>(blockIdx.y);
  const HeadTile tile = {
      .request = request,
      .head = head,
      .key_head = KeyHead(p.shape, head),
      .first_value = static_cast<int>(blockIdx.x) * kTileValues,
      .chunks = ChunkRange::Of(p.batch, request)};
  if (tile.chunks.rows_of(0) <= 0) return;
  if (threadIdx.x / 32 == kReaders) {
    LoadChunks(p, tile, records, w);
  } else {
    ComputeChunks(p, tile, w);
  }
#endif
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
static_assert(sizeof(Workspace) <= 227 * 1024);
#endif
// As the device counts it, which the host's compiler does not see.
constexpr int kSharedBytes = kStages * sizeof(Stage) + 1024;

}  // namespace

bool CanScanChunks() {
  cudaFuncAttributes attributes;
  if (cudaFuncGetAttributes(&attributes, ScanChunksKernel) != cudaSuccess) {
    cudaGetLastError();
    return false;
  }
  return attributes.binaryVersion == 90;
}

absl::Status ScanChunks(const GdnCoreParams& params, const ChunkRecord* records,
                        const Launch& on) {
  const absl::Status allowed =
      ToStatus(cudaFuncSetAttribute(ScanChunksKernel,
                                    cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    kSharedBytes),
               "GdnPrefill, shared memory");
  if (!allowed.ok()) return allowed;
  const dim3 grid(kDim / kTileValues, params.shape.value_heads,
                  params.batch.max_requests);
  return LaunchDependent(
      "GdnPrefill, scan", ScanChunksKernel,
      {.grid = grid, .block = kThreads, .shared_bytes = kSharedBytes}, on,
      params, records);
}

}  // namespace bole::cuda
