// The warpgroups of tiled attention: scores, weights and weighted values of 64
// rows, a tile of 64 tokens at a time.
#ifndef BOLE_KERNELS_CUDA_ATTENTION_ATTENTION_ROWS_CUH_
#define BOLE_KERNELS_CUDA_ATTENTION_ATTENTION_ROWS_CUH_

#include <cmath>
#include <cstdint>

#include "kernels/cuda/attention/attention_ring.cuh"
#include "kernels/cuda/attention/attention_work.cuh"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/wgmma.cuh"

namespace bole::cuda {

// exp(score / sqrt(256)) = 2^(kExponent score).
constexpr float kExponent = 1.44269504f / 16;
static_assert(kTileHeadDim == 256);

__device__ inline float Exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// The factor that makes weights relative to 2^(kExponent max) relative to
// 2^(kExponent largest). It is 0 if there are no weights yet; `largest` may
// then be -infinity, too.
__device__ inline float Rescale(float max, float largest) {
  return max == -INFINITY ? 0.0f : Exp2((max - largest) * kExponent);
}

// A thread has two of the item's rows, RowOf(0) and RowOf(1), which are among
// its warpgroup's 64.
__device__ inline int RowOf(int half) {
  const int thread = static_cast<int>(threadIdx.x);
  return thread / 32 * 16 + thread % 32 / 4 + 8 * half;
}

// How far scores may exceed the one that weights are relative to, so that sums
// are seldom rescaled; weights are then up to 2^8. A block of one warpgroup has
// the time to rescale for every tile.
template <int kWarpgroups>
constexpr float kSlack = kWarpgroups == 1 ? 0 : 8 / kExponent;

// The score that weights are relative to, and the sum of weights, of a thread's
// two rows. The sum is over the thread's own columns.
template <int kWarpgroups>
struct RowWeights {
  float max[2] = {-INFINITY, -INFINITY};
  float sum[2] = {0, 0};

  // Turns a tile's scores into weights. If it returns true, which is the same
  // for the whole warp, earlier sums of values must be multiplied by `rescale`.
  __device__ bool Add(float (&scores)[32], float (&rescale)[2]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float largest = max[half];
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        largest = fmaxf(largest, fmaxf(scores[4 * i + 2 * half],
                                       scores[4 * i + 2 * half + 1]));
      }
      largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 1));
      largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 2));
      if (kWarpgroups > 1 && largest <= max[half] + kSlack<kWarpgroups>) {
        largest = max[half];
      }
      rescale[half] = Rescale(max[half], largest);
      max[half] = largest;
      const float base = largest == -INFINITY ? 0.0f : largest * kExponent;
      float tile_sum = 0;
#pragma unroll
      for (int i = 0; i < 16; ++i) {
        float& score = scores[i / 2 * 4 + 2 * half + i % 2];
        score = Exp2(fmaf(score, kExponent, -base));
        tile_sum += score;
      }
      sum[half] = sum[half] * rescale[half] + tile_sum;
    }
    return kWarpgroups == 1 ||
           __any_sync(~0u, rescale[0] != 1 || rescale[1] != 1);
  }
};

// Sets the scores of hidden tokens to -infinity. REQUIRES: the tile has some.
template <int kWarpgroups>
__device__ void Hide(const VisibleTokens<kWarpgroups>& visible, int tile,
                     const int (&nodes)[2], float (&scores)[32]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const uint64_t bits = visible.Of(tile, nodes[half]) >> threadIdx.x % 4 * 2;
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      float& score = scores[i / 2 * 4 + 2 * half + i % 2];
      if ((bits >> (i / 2 * 8 + i % 2) & 1) == 0) score = -INFINITY;
    }
  }
}

// Starts to copy a warpgroup's queries to shared memory, swizzled as tiles are.
// Rows that do not exist become 0.
__device__ inline void BeginQueries(const TileArgs& args, const TileWork& work,
                                    unsigned char* q) {
  const int thread = static_cast<int>(threadIdx.x) % 128;
  const int first = static_cast<int>(threadIdx.x) / 128 * kWarpgroupRows;
  const int unit = thread % 32;
  const Divisor& group = args.plan.group;
  const uint32_t to = AddressOf(q) + unit / 8 * kBlockBytes;
#pragma unroll 2
  for (int row = thread / 32; row < kWarpgroupRows; row += 4) {
    const bool exists = first + row < work.item.rows;
    const int from = exists ? first + row : 0;
    const int64_t head = static_cast<int64_t>(work.item.first_node +
                                              work.item.Node(from, group)) *
                             args.p.shape.query_heads +
                         work.kv_head * group.divisor +
                         work.item.Head(from, group);
    CopyUnit(As<BFloat16>(args.p.q) + head * kTileHeadDim + unit * 8,
             to + row * 128 + (unit % 8 ^ row % 8) * 16, exists ? 16 : 0);
  }
}

// Starts scores = q k^T.
__device__ inline void MultiplyKeys(uint32_t q, uint32_t k,
                                    float (&scores)[32]) {
  WgmmaFence();
#pragma unroll
  for (int step = 0; step < kTileHeadDim / 16; ++step) {
    const uint32_t at = step / 4 * kBlockBytes + step % 4 * 32;
    Wgmma64(scores, WgmmaOperand(q + at), WgmmaOperand(k + at), step > 0);
  }
  WgmmaCommit();
}

// Starts out += weights v.
__device__ inline void MultiplyValues(const uint32_t (&weights)[16], uint32_t v,
                                      float (&out)[128]) {
  WgmmaFence();
#pragma unroll
  for (int step = 0; step < kTileTokens / 16; ++step) {
    Wgmma256(out, weights + 4 * step,
             WgmmaOperand(v + step * 16 * 128, kBlockBytes));
  }
  WgmmaCommit();
}

__device__ inline void Pack(const float (&scores)[32],
                            uint32_t (&weights)[16]) {
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    const __nv_bfloat162 pair =
        __floats2bfloat162_rn(scores[2 * i], scores[2 * i + 1]);
    weights[i] = reinterpret_cast<const uint32_t&>(pair);
  }
}

// Stores the thread's rows that are among the item's first `count`.
template <int kWarpgroups>
__device__ void StoreRows(const RowWeights<kWarpgroups>& rows,
                          const float (&out)[128], int count,
                          TileShared<kWarpgroups>& shared) {
  const int quad = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    PartialRow& to = shared.rows[RowOf(half)];
    const bool exists = RowOf(half) < count;
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      if (!exists) break;
      *reinterpret_cast<float2*>(&to.out[8 * i + 2 * quad]) = {
          out[4 * i + 2 * half], out[4 * i + 2 * half + 1]};
    }
    float sum = rows.sum[half];
    sum += __shfl_xor_sync(~0u, sum, 1);
    sum += __shfl_xor_sync(~0u, sum, 2);
    if (quad == 0 && exists) {
      to.max = rows.max[half];
      to.sum = sum;
    }
  }
}

// Processes the block's tiles for a warpgroup that has rows and whose queries
// have arrived. The result goes to shared memory once all warpgroups are done
// with the ring.
template <int kWarpgroups>
__device__ void AttendRows(const TileArgs& args, const TileWork& work,
                           const VisibleTokens<kWarpgroups>& visible,
                           TileShared<kWarpgroups>& shared) {
  const int warpgroup = static_cast<int>(threadIdx.x) / 128;
  const Divisor& group = args.plan.group;
  const uint32_t q = AddressOf(shared.q[warpgroup]);
  // Rows beyond the last one see what it sees; their results are not used.
  const int nodes[2] = {
      work.item.Node(min(RowOf(0), work.item.rows - 1), group),
      work.item.Node(min(RowOf(1), work.item.rows - 1), group)};
  Ring<kWarpgroups> ring(shared);
  RowWeights<kWarpgroups> rows;
  float out[128];
#pragma unroll
  for (int i = 0; i < 128; ++i) out[i] = 0;
  if (work.first_tile < work.last_tile) {
    float scores[32];
    uint32_t weights[16];
    float rescale[2];
    int keys = ring.Take();
    MultiplyKeys(q, ring.Tile(keys), scores);
    WgmmaWait<0>();
    WgmmaResults(scores);
    ring.Release(keys);
    if (work.HasHidden(work.first_tile)) {
      Hide(visible, work.first_tile, nodes, scores);
    }
    rows.Add(scores, rescale);
    Pack(scores, weights);
    // The scores of a tile are computed while the values of the previous one
    // are added.
    for (int tile = work.first_tile + 1; tile < work.last_tile; ++tile) {
      keys = ring.Take();
      MultiplyKeys(q, ring.Tile(keys), scores);
      const int values = ring.Take();
      MultiplyValues(weights, ring.Tile(values), out);
      WgmmaWait<1>();
      WgmmaResults(scores);
      ring.Release(keys);
      if (work.HasHidden(tile)) Hide(visible, tile, nodes, scores);
      const bool moves = rows.Add(scores, rescale);
      WgmmaWait<0>();
      WgmmaResults(out);
      ring.Release(values);
      if (moves) {
#pragma unroll
        for (int i = 0; i < 128; ++i) out[i] *= rescale[i / 2 % 2];
      }
      Pack(scores, weights);
    }
    MultiplyValues(weights, ring.Tile(ring.Take()), out);
    WgmmaWait<0>();
    WgmmaResults(out);
  }
  SyncThreads(1, 128 * kWarpgroups);
  StoreRows(rows, out, work.item.rows, shared);
}

// Takes and releases the block's tiles for a warpgroup without rows.
template <int kWarpgroups>
__device__ void AttendNothing(const TileWork& work,
                              TileShared<kWarpgroups>& shared) {
  Ring<kWarpgroups> ring(shared);
  for (int i = 2 * work.first_tile; i < 2 * work.last_tile; ++i) {
    ring.Release(ring.Take());
  }
  SyncThreads(1, 128 * kWarpgroups);
}

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_ATTENTION_ATTENTION_ROWS_CUH_
