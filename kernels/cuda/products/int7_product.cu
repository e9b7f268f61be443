// out = x W^T of few rows, at the speed at which W's bytes can be read.
//
// One block for each multiprocessor, as in stream_product.cu: one thread keeps
// the copy engine busy with chunks of W and of x, which go to a ring of stages
// in shared memory, and eight warps multiply them. W is never written, so its
// copies start before the previous kernels have ended.
//
// A warp turns a unit of W (int7_matrix.h) into bfloat16 in registers: 0x43
// followed by a byte is exactly 128 more than the byte. So the products of
// integers up to 63 with x in bfloat16 are exact, and are summed in float32; a
// row's scale is applied last. The sums of warps and blocks over their parts of
// the columns are added up in a fixed order, so results do not depend on
// timing.
#include "kernels/cuda/products/int7_product.h"

#include <cstddef>

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/products/int7_ring.cuh"
#include "kernels/cuda/products/int7_writer.cuh"
#include "kernels/cuda/products/stream_ring.cuh"
#include "kernels/int7.h"

namespace bole::cuda {
namespace {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// Two bytes of `word`, 0 and 1 or 2 and 3, as the integers that they stand for.
__device__ uint32_t Integers(uint32_t word, uint32_t which) {
  constexpr float kZero = 128 + kInt7Zero;
  const uint32_t raised = __byte_perm(word, 0x43434343u, which);
  const __nv_bfloat162 zero = __float2bfloat162_rn(kZero);
  const __nv_bfloat162 value =
      __hsub2(reinterpret_cast<const __nv_bfloat162&>(raised), zero);
  return reinterpret_cast<const uint32_t&>(value);
}
constexpr uint32_t kLowBytes = 0x4140;
constexpr uint32_t kHighBytes = 0x4342;

__device__ void Unpack(const uint4& w, uint32_t (&a)[2][4]) {
  const uint32_t words[2][2] = {{w.x, w.y}, {w.z, w.w}};
#pragma unroll
  for (int k = 0; k < 2; ++k) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      a[k][2 * i] = Integers(words[k][i], kLowBytes);
      a[k][2 * i + 1] = Integers(words[k][i], kHighBytes);
    }
  }
}

// One of the warps that multiply.
template <int kN>
struct Int7Consumer {
  using BlockRing = Int7Ring<kN>;
  static constexpr int kBlocks = kN / 8;  // Blocks of 8 rows of x.
  using Sums = float[kInt7WarpStrips][kBlocks][4];

  const Int7Task& t;
  const Int7Part& part;
  float4* sums;  // [groups, strips, kBlocks, 32], where the ring was.
  int lane;
  int group;
  int first;  // First strip of a tile; the next ones are `step` further.
  int step;

  __device__ Int7Consumer(const Int7Task& task, const Int7Part& p, void* shared)
      : t(task),
        part(p),
        sums(static_cast<float4*>(shared)),
        lane(static_cast<int>(threadIdx.x) % 32) {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    step = kInt7Warps / t.plan.column_groups;
    group = warp / step;
    first = warp % step;
  }

  // Adds kPieces of the group's pieces, for a warp with kCount strips. w and x
  // point to what the lane reads of the first ones. Everything is loaded before
  // it is multiplied.
  template <int kCount, int kPieces>
  __device__ void MultiplyPieces(const uint4* w, const uint4* x,
                                 Sums& d) const {
    const int strip_units = step * t.plan.chunk_pieces * 32;
    const int group_units = t.plan.column_groups * 32;
    uint4 units[kPieces][kCount];
    uint4 columns[kPieces][kBlocks];
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
#pragma unroll
      for (int s = 0; s < kCount; ++s) {
        units[i][s] = w[s * strip_units + i * group_units];
      }
#pragma unroll
      for (int b = 0; b < kBlocks; ++b) {
        columns[i][b] = x[i * group_units * kBlocks + b * 32];
      }
    }
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      uint32_t a[kCount][2][4];
#pragma unroll
      for (int s = 0; s < kCount; ++s) Unpack(units[i][s], a[s]);
#pragma unroll
      for (int b = 0; b < kBlocks; ++b) {
#pragma unroll
        for (int s = 0; s < kCount; ++s) {
          MultiplyAdd(d[s][b], a[s][0], columns[i][b].x, columns[i][b].y);
        }
#pragma unroll
        for (int s = 0; s < kCount; ++s) {
          MultiplyAdd(d[s][b], a[s][1], columns[i][b].z, columns[i][b].w);
        }
      }
    }
  }

  // Adds the pieces of a chunk.
  template <int kCount>
  __device__ void MultiplyChunk(const uint4* w, const uint4* x, int pieces,
                                Sums& d) const {
    constexpr int kAtATime = kCount == 1 ? 4 : kCount == 2 && kN == 8 ? 2 : 1;
    const int groups = t.plan.column_groups;
    w += (first * t.plan.chunk_pieces + group) * 32;
    x += group * kBlocks * 32;
    int c = group;
    for (; c + (kAtATime - 1) * groups < pieces; c += kAtATime * groups) {
      MultiplyPieces<kCount, kAtATime>(w, x, d);
      w += kAtATime * groups * 32;
      x += kAtATime * groups * kBlocks * 32;
    }
    if constexpr (kAtATime > 1) {
      for (; c < pieces; c += groups) {
        MultiplyPieces<kCount, 1>(w, x, d);
        w += groups * 32;
        x += groups * kBlocks * 32;
      }
    }
  }

  // d = the tile's products over this group's columns.
  template <int kCount>
  __device__ void Multiply(BlockRing& ring, Sums& d) const {
    for (int i = 0; i < part.num_chunks; ++i) {
      WaitBarrier(ring.full(ring.stage), ring.parity);
      if constexpr (kCount > 0) {
        MultiplyChunk<kCount>(
            reinterpret_cast<const uint4*>(ring.weight()) + lane,
            reinterpret_cast<const uint4*>(ring.x()) + lane,
            part.PiecesOfChunk(t, i), d);
      }
      FenceForAsync();  // The stage has been read when the next copy comes.
      __syncwarp();
      if (lane == 0) Arrive(ring.empty(ring.stage));
      ring.Advance();
    }
  }
  // The same, for a warp of `count` strips.
  template <int kCount>
  __device__ void MultiplyStrips(int count, BlockRing& ring, Sums& d) const {
    if (count == kCount) {
      Multiply<kCount>(ring, d);
    } else if constexpr (kCount > 0) {
      MultiplyStrips<kCount - 1>(count, ring, d);
    }
  }

  // Writes what a lane has of block b of a strip.
  __device__ void WriteBlock(const Int7Writer& writer, int strip, int b,
                             const float (&d)[4]) const {
    const int n = 8 * b + 2 * (lane % 4);
    const int row = strip * kStripRows + lane / 4;
    writer.Write(n, row, d[0]);
    writer.Write(n + 1, row, d[1]);
    writer.Write(n, row + 8, d[2]);
    writer.Write(n + 1, row + 8, d[3]);
  }

  // Leaves the sums in shared memory if there is one tile, otherwise writes the
  // results.
  __device__ void Run(BlockRing ring, const Int7Writer& writer) const {
    for (int i = 0; i < t.plan.tiles; ++i) {
      const StripTile tile = part.TileAt(t, i);
      const int count =
          first < tile.strips ? (tile.strips - first + step - 1) / step : 0;
      Sums d = {};
      MultiplyStrips<kInt7WarpStrips>(count, ring, d);
      const bool leaves = t.plan.tiles == 1;
      if (leaves) SyncThreads(1, kConsumers);  // The ring has been read.
#pragma unroll
      for (int s = 0; s < kInt7WarpStrips; ++s) {
        if (s >= count) break;
        const int strip = first + s * step;
#pragma unroll
        for (int b = 0; b < kBlocks; ++b) {
          if (leaves) {
            const int at = (group * tile.strips + strip) * kBlocks + b;
            sums[at * 32 + lane] =
                make_float4(d[s][b][0], d[s][b][1], d[s][b][2], d[s][b][3]);
          } else {
            WriteBlock(writer, tile.first_strip + strip, b, d[s][b]);
          }
        }
      }
    }
  }
};

// Adds up the sums that the cluster's warps left of their only tile, in the
// order of blocks, then of groups. An item is four rows of W and one row of x.
// Each block takes its part of the items, and a thread's first item is known
// from the beginning.
template <int kN>
struct Int7Adder {
  static constexpr int kBlocks = kN / 8;
  static constexpr int kItems = 4 * kN;  // Items of a strip.

  const Int7Task& t;
  const Int7Part& part;
  const StripTile tile;
  const float* sums;

  __device__ int FirstItem() const {
    return part.rank * (tile.strips * kItems / t.plan.cluster) +
           static_cast<int>(threadIdx.x);
  }
  __device__ static int NOf(int item) { return item / 4 % kN; }
  __device__ int RowOf(int item) const {
    return (tile.first_strip + item / kItems) * kStripRows + item % 4 * 4;
  }

  __device__ void Run(const Int7Writer& writer, FourRows early) const {
    const int size = tile.strips * kItems / t.plan.cluster;
    const int begin = FirstItem();
    for (int i = begin; i < (part.rank + 1) * size; i += kConsumers) {
      const int n = NOf(i);
      if (n >= writer.limit) continue;
      if (i != begin) early = writer.Read(n, RowOf(i));
      writer.WriteFour(n, RowOf(i), SumOf(i), early);
    }
  }

  __device__ float4 SumOf(int item) const {
    const int n = NOf(item);
    const int quad = item % 4;
    const int unit = item / kItems * kBlocks + n / 8;
    const int lane_of_first = quad % 2 * 16 + n % 8 / 2;
    const int at = unit * 128 + lane_of_first * 4 + quad / 2 * 2 + n % 2;
    const int group_size = tile.strips * kBlocks * 128;
    float4 sum = make_float4(0, 0, 0, 0);
    for (int block = 0; block < t.plan.cluster; ++block) {
      const float* from = InBlock(sums + at, block);
      for (int g = 0; g < t.plan.column_groups; ++g, from += group_size) {
        sum.x += from[0];
        sum.y += from[16];
        sum.z += from[32];
        sum.w += from[48];
      }
    }
    return sum;
  }
};

#endif

template <int kN>
__global__ void __launch_bounds__(kThreads, kN == 8 ? 3 : 2)
    Int7Kernel(const __grid_constant__ Int7Task t, Int7Stages stages) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(1024) unsigned char shared[];
  StartNext();
  const Int7Ring<kN> ring = {shared, stages};
  const Int7Part part(t);
  const Int7Producer<kN> producer = {t, part};
  const Int7Adder<kN> adder = {t, part, part.TileAt(t, 0),
                               reinterpret_cast<const float*>(shared)};
  const bool produces = threadIdx.x == kConsumers;
  const bool consumes = threadIdx.x < kConsumers;
  Int7Place place;
  if (produces) place = producer.Start(ring);
  __syncthreads();
  if (produces) producer.Run(ring, place);
  Int7Writer writer = {t, 0};
  FourRows early = {};
  if (consumes) {
    WaitForPrevious();
    writer.limit = min(*t.count, t.num_rows);
    const int item = adder.FirstItem();
    if (t.plan.tiles == 1) {
      early = writer.Read(adder.NOf(item), adder.RowOf(item));
    }
    const Int7Consumer<kN> consumer(t, part, shared);
    consumer.Run(ring, writer);
  }
  if (t.plan.tiles > 1) return;
  __syncwarp();
  if (t.plan.cluster > 1) {
    SyncCluster();
  } else {
    __syncthreads();
  }
  if (consumes) adder.Run(writer, early);
  if (t.plan.cluster > 1) SyncCluster();  // The others may still read the sums.
#endif
}

// All kernels, by the most rows that they take.
struct Row {
  int max_rows;
  void (*kernel)(const Int7Task, Int7Stages);
};
template <int kN>
constexpr Row RowOf() {
  return {kN, &Int7Kernel<kN>};
}
constexpr Row kTable[] = {RowOf<8>(), RowOf<kMaxInt7Rows>()};

const Row& RowFor(int num_rows) {
  const Row* row = kTable;
  while (row->max_rows < num_rows) ++row;
  return *row;
}

}  // namespace

int Int7BoxRows(int num_rows) { return RowFor(num_rows).max_rows; }

absl::Status PrepareInt7Products() {
  for (const Row& row : kTable) {
    const cudaError_t error = cudaFuncSetAttribute(
        row.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
        kMaxRingBytes + kBarrierBytes);
    if (error != cudaSuccess) return ToStatus(error, "products of integers");
  }
  return absl::OkStatus();
}

absl::Status LaunchInt7Product(const Int7Task& task, const Launch& on) {
  const Row& row = RowFor(task.num_rows);
  const Int7Stages stages = Int7StagesFor(task.plan, row.max_rows);
  const size_t bytes = stages.bytes + kBarrierBytes;
  return LaunchDependent("a product of integers", row.kernel,
                         {.grid = dim3(task.plan.blocks),
                          .block = dim3(kThreads),
                          .shared_bytes = bytes,
                          .cluster = task.plan.cluster},
                         on, task, stages);
}

}  // namespace bole::cuda
