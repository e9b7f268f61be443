// Advances the states from chunk to chunk (Eq. 2 and 10) and computes every
// row's output. There is one block for each request, value head and tile of the
// head's values; one warpgroup loads, and the others compute 32 values each.
//
// Everything is transposed: U^T K advances the state S [32 of dv, dk], which is
// the left operand of S K^T and S Q^T, as R and U are in their products. Left
// operands are in registers as the sum of two bfloat16, one in each half of the
// 64 rows of a product, so that both halves of its result belong to the same
// thread and are added there. Only the inputs pass through shared memory. Raw
// keys and queries are exact as bfloat16; X - I and C are sums of two bfloat16,
// which leaves a relative error of 2^-16.
#include <cstdint>

#include "kernels/cuda/bf16x8.cuh"
#include "kernels/cuda/check.h"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/gdn/gdn_views.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/prefill/chunk_products.cuh"
#include "kernels/cuda/prefill/chunk_tiles.cuh"
#include "kernels/cuda/prefill/gdn_chunk_loads.cuh"
#include "kernels/cuda/prefill/gdn_chunks.cuh"
#include "kernels/cuda/prefill/gdn_chunks.h"
#include "kernels/cuda/prefill/stacked_products.cuh"
#include "kernels/cuda/wgmma.cuh"

namespace bole::cuda {
namespace {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

__device__ __forceinline__ void LoadState(const float* from, bool from_zero,
                                          float (&s)[32]) {
#pragma unroll
  for (int j = 0; j < 16; ++j) {
    float2 pair = make_float2(0, 0);
    if (!from_zero) pair = PairAt(from + Row() * kScanDim, 8 * j + Column());
    s[2 * j] = pair.x;
    s[2 * j + 1] = pair.y;
  }
}

__device__ __forceinline__ void StoreState(const float (&s)[32], float* to) {
#pragma unroll
  for (int j = 0; j < 16; ++j) {
    *reinterpret_cast<float2*>(to + Row() * kScanDim + 8 * j + Column()) =
        make_float2(s[2 * j], s[2 * j + 1]);
  }
}

// sums = S K^T of the raw keys, or S Q^T, by the fragments of S.
__device__ __forceinline__ void MultiplyState(const Fragment (&s)[8],
                                              uint32_t rows,
                                              float (&sums)[32]) {
  WgmmaFence();
  ForSteps<8>([&](auto step) {
    constexpr int kStep = decltype(step)::value;
    const uint64_t b =
        WgmmaOperand(rows + kStep / 4 * kRowsHalfBytes + kStep % 4 * 32);
    MultiplyFragment<64, false>(sums, s[kStep], b, kStep > 0);
  });
  WgmmaCommit();
}

// The address of a lane's row for the transposed access of four 8x8 blocks,
// which are rows 8 j .. 8 j + 31 of a tile in the warp's 8 columns.
__device__ uint32_t BlockAddress(const void* tile, int j) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  return SharedBytes(tile) + TileOffset(8 * j + lane, Warp());
}

// R = D_beta (V - D_P K S), given S K^T.
__device__ __forceinline__ void BuildRightSide(const ScanStage& stage,
                                               const float (&sums)[32],
                                               float (&r)[16]) {
#pragma unroll
  for (int first = 0; first < 8; first += 4) {
    uint32_t v[4];
    asm volatile(
        "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, "
        "[%4];"
        : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
        : "r"(BlockAddress(stage.values, first)));
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      const int j = first + n;
      const float2 beta = PairAt(stage.record.beta, 8 * j + Column());
      const float2 factor = PairAt(stage.record.key_factor, 8 * j + Column());
      r[2 * j] = fmaf(-factor.x, sums[4 * j] + sums[4 * j + 2],
                      beta.x * FirstOfTwo(v[n]));
      r[2 * j + 1] = fmaf(-factor.y, sums[4 * j + 1] + sums[4 * j + 3],
                          beta.y * SecondOfTwo(v[n]));
    }
  }
}

// sums += x m^T, for the fragments of x and an m [64, 64] that is the sum of
// two tiles.
__device__ __forceinline__ void MultiplyTokens(const Fragment (&x)[4],
                                               const void* m_high,
                                               const void* m_low,
                                               float (&sums)[32]) {
  WgmmaFence();
  ForSteps<4>([&](auto step) {
    constexpr int kStep = decltype(step)::value;
    constexpr int kSkip = 32 * kStep;
    MultiplyFragment<64, false>(
        sums, x[kStep], WgmmaOperand(SharedBytes(m_high) + kSkip), true);
    MultiplyFragment<64, false>(sums, High(x[kStep]),
                                WgmmaOperand(SharedBytes(m_low) + kSkip), true);
  });
  WgmmaCommit();
}

// sums = exp(Gamma_end) S + U'^T K, by the fragments of U' = D U.
__device__ __forceinline__ void AdvanceState(const Fragment (&u)[4],
                                             const ScanStage& stage,
                                             const float (&s)[32],
                                             float (&sums)[64]) {
  const float decay = stage.record.decay;
#pragma unroll
  for (int j = 0; j < 16; ++j) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      sums[4 * j + e] = decay * s[2 * j + e];
      sums[4 * j + 2 + e] = 0;
    }
  }
  WgmmaFence();
  ForSteps<4>([&](auto step) {
    constexpr int kStep = decltype(step)::value;
    const uint64_t b = WgmmaOperand(
        SharedBytes(stage.rows) + 16 * kStep * kTileRowBytes, kRowsHalfBytes);
    MultiplyFragment<128, true>(sums, u[kStep], b, true);
  });
  WgmmaCommit();
}

// The group transposes its 32 values of all rows in the place of the inputs
// that it has read, and stores them row by row.
__device__ __forceinline__ void StoreOut(const GdnCoreParams& p,
                                         const HeadTile& tile, int i,
                                         const float (&o)[16],
                                         ScanStage& stage) {
#pragma unroll
  for (int j = 0; j < 8; j += 4) {
    const float* x = o + 2 * j;
    asm volatile(
        "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, "
        "%4};" ::"r"(BlockAddress(stage.values, j)),
        "r"(PackTwo(x[0], x[1])), "r"(PackTwo(x[2], x[3])),
        "r"(PackTwo(x[4], x[5])), "r"(PackTwo(x[6], x[7]))
        : "memory");
  }
  const int group = Warp() / 4;
  asm volatile("bar.sync %0, 128;" ::"r"(1 + group) : "memory");
  const int thread = static_cast<int>(threadIdx.x % 128);
  const int vector = 4 * group + thread % 4;
  const int first_row = tile.chunks.first_row_of(i);
  const int count = tile.chunks.rows_of(i);
#pragma unroll
  for (int r = thread / 4; r < kChunkRows; r += 32) {
    if (r >= count) continue;
    const int64_t value_row =
        static_cast<int64_t>(first_row + r) * p.shape.value_heads + tile.head;
    StoreVector(
        As<BFloat16>(p.out) + value_row * kScanDim + tile.first_value +
            vector * kVector,
        *reinterpret_cast<const uint4*>(stage.values + TileOffset(r, vector)));
  }
}

// Computes U of a chunk from the products of the state with its keys. Waits for
// all products, so those with its queries are complete, too.
__device__ __forceinline__ void SolveChunk(const ScanStage& stage,
                                           float (&keys)[32], float (&u)[16]) {
  WgmmaWait<1>();
  BuildRightSide(stage, keys, u);
  Fragment right_side[4];
  Stack(u, right_side);
  StartSums(u, keys);
  MultiplyTokens(right_side, stage.record.x_high, stage.record.x_low, keys);
  WgmmaWait<0>();
  AddHalves<64>(keys, u);
}

// Computes the state after the chunk and the chunk's outputs from U and the
// sums of the queries' rows. Waits for all products.
__device__ __forceinline__ void FinishChunk(const ScanStage& stage,
                                            const float (&u)[16],
                                            float (&queries)[32],
                                            float (&s)[32], float (&o)[16]) {
  float scaled[16];
  ScaleColumns(stage.record.write_factor, u, scaled);
  Fragment write[4];
  Stack(scaled, write);
  float sums[64];
  AdvanceState(write, stage, s, sums);
  AddHalves<64>(queries, o);
  ScaleColumns(stage.record.query_factor, o, o);
  StartSums(o, queries);
  Fragment corrections[4];
  Stack(u, corrections);
  MultiplyTokens(corrections, stage.record.c_high, stage.record.c_low, queries);
  WgmmaWait<0>();
  AddHalves<128>(sums, s);
  AddHalves<64>(queries, o);
}

// Processes all chunks. The outputs of a chunk are stored while the products of
// the next one run.
template <int kGroups>
__device__ void ComputeChunks(const GdnCoreParams& p, const HeadTile& tile,
                              ScanWorkspace<kGroups>& w) {
  float* state = HeadState(p.shape, p.states, p.batch.slot[tile.request],
                           p.layer, tile.head) +
                 (tile.first_value + Warp() / 4 * kGroupValues) * kScanDim;
  float s[32];
  LoadState(state, tile.chunks.first_position == 0, s);
  float keys[32];
  float queries[32];
  float u[16];
  float o[16];
  const auto start = [&](int i) {
    Fragment fragments[8];
    Stack(s, fragments);
    w.ring.WaitFull(i);
    FenceShared();
    const uint32_t rows = SharedBytes(w.stages[i % kScanStages].rows);
    MultiplyState(fragments, rows, keys);
    MultiplyState(fragments, rows + kTileBytes, queries);
  };
  const auto store = [&](int i) {
    StoreOut(p, tile, i, o, w.stages[i % kScanStages]);
    w.ring.Release(i);
  };
  start(0);
  SolveChunk(w.stages[0], keys, u);
  int i = 0;
#pragma unroll 1
  for (;; ++i) {
    FinishChunk(w.stages[i % kScanStages], u, queries, s, o);
    if (tile.chunks.rows_of(i + 1) <= 0) break;
    start(i + 1);
    store(i);
    SolveChunk(w.stages[(i + 1) % kScanStages], keys, u);
  }
  store(i);
  StoreState(s, state);
}

#endif

// Grid: tiles of the values, value heads, requests.
template <int kGroups>
__global__ void __launch_bounds__(128 * kGroups + kLoaders, 1)
    ScanChunksKernel(const __grid_constant__ GdnCoreParams p,
                     const ChunkRecord* records) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  static_assert(sizeof(ScanWorkspace<kGroups>) <= 227 * 1024);
  extern __shared__ __align__(1024) unsigned char memory[];
  auto& w = *reinterpret_cast<ScanWorkspace<kGroups>*>(memory);
  if (threadIdx.x == 0) w.ring.Init();
  __syncthreads();
  WaitForPrevious();
  StartNext();
  const int request = static_cast<int>(blockIdx.z);
  const int head = static_cast<int>(blockIdx.y);
  constexpr int kValues = kGroups * kGroupValues;
  const HeadTile tile = {.request = request,
                         .head = head,
                         .key_head = KeyHead(p.shape, head),
                         .first_value = static_cast<int>(blockIdx.x) * kValues,
                         .num_values = kValues,
                         .chunks = ChunkRange::Of(p.batch, request)};
  if (tile.chunks.rows_of(0) <= 0) return;
  if (threadIdx.x >= 128 * kGroups) {
    if (kGroups == 2) asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    LoadChunks(p, tile, records, w);
  } else {
    if (kGroups == 2) asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    ComputeChunks(p, tile, w);
  }
#endif
}

// The size of the workspace, which the host's compiler does not see.
constexpr int kSharedBytes = kScanStages * sizeof(ScanStage) + 1024;

template <int kGroups>
absl::Status LaunchScan(const GdnCoreParams& params, const ChunkRecord* records,
                        const Launch& on) {
  const absl::Status allowed =
      ToStatus(cudaFuncSetAttribute(ScanChunksKernel<kGroups>,
                                    cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    kSharedBytes),
               "GdnPrefill, shared memory");
  if (!allowed.ok()) return allowed;
  const dim3 grid(kScanDim / (kGroups * kGroupValues), params.shape.value_heads,
                  params.batch.max_requests);
  return LaunchDependent("GdnPrefill, scan", ScanChunksKernel<kGroups>,
                         {.grid = grid,
                          .block = 128 * kGroups + kLoaders,
                          .shared_bytes = kSharedBytes},
                         on, params, records);
}

}  // namespace

absl::Status ScanChunks(const GdnCoreParams& params, const ChunkRecord* records,
                        const Launch& on) {
  // On one multiprocessor, a block of two warpgroups is faster. Two blocks of
  // one warpgroup are faster if there are multiprocessors for all of them.
  const int warpgroups = params.batch.max_requests * params.shape.value_heads *
                         (kScanDim / kGroupValues);
  constexpr int kMultiprocessors = 132;
  return warpgroups <= kMultiprocessors ? LaunchScan<1>(params, records, on)
                                        : LaunchScan<2>(params, records, on);
}

}  // namespace bole::cuda
