// out = x W^T of few rows, at the speed at which W can be read.
//
// One block for each multiprocessor. In a block, one thread keeps the copy
// engine busy: chunks of a tile of W and of x go to a ring of stages in shared
// memory, and two warpgroups multiply them. W is never written, so its copies
// start before the kernels ahead have ended, and the ring leaves room for two
// such blocks on a multiprocessor.
//
// Every block reads about as many bytes of W. What blocks of a cluster have
// summed over their parts of the columns is added up in the order of the
// columns: results do not depend on timing.
#include "kernels/cuda/stream_product.h"

#include <cstddef>

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/stream_ring.cuh"
#include "kernels/cuda/wgmma.cuh"
#include "kernels/cuda/wgmma_few.cuh"

namespace bole::cuda {
namespace {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

__device__ void SyncConsumers() { SyncThreads(1, kConsumers); }

template <int kN, int kBoxes>
struct Consumer {
  using BlockRing = Ring<kN, kBoxes>;
  static constexpr int kBlocks = kN / 8;  // Of D's columns.
  // Whether the warpgroups divide the columns, and not the rows.
  static constexpr bool kHalves = kBoxes == 2;

  static constexpr int kOwners = kHalves ? kConsumers / 2 : kConsumers;

  const StreamTask& t;
  const Share& share;
  float4* sums;   // [kBlocks, kConsumers], where the ring was.
  int count = 0;  // Rows of x in use.
  // What the first column block that this thread adds up is added to: read
  // early, because nothing hides the wait for it at the end.
  float4 first_old = {};

  __device__ static int thread() { return static_cast<int>(threadIdx.x); }
  __device__ bool leaves_sums() const { return kHalves || t.plan.cluster > 1; }

  // By every warp: it is done with the stage.
  __device__ void Release(const BlockRing& ring, int stage) const {
    if (thread() % 32 == 0) Arrive(ring.empty(stage));
  }

  // d = the tile's products over this warpgroup's columns.
  __device__ void Multiply(BlockRing& ring, float (&d)[kN / 2]) const {
    const int group = thread() / 128;
    const int box = kHalves ? group : 0;
    const int first_byte = kHalves ? 0 : group * 64 * kRowBytes;
    int last = 0;
    for (int i = 0; i < share.num_chunks; ++i) {
      WaitBarrier(ring.full(ring.stage), ring.parity);
      const uint32_t w = ring.weight(box) + first_byte;
      const uint32_t x = ring.x(box);
      WgmmaFence();
#pragma unroll
      for (int k = 0; k < kBoxColumns / 16; ++k) {
        WgmmaFew<kN>(d, WgmmaOperand(w + 32 * k), WgmmaOperand(x + 32 * k),
                     i > 0 || k > 0);
      }
      WgmmaCommit();
      WgmmaWait<1>();
      if (i > 0) Release(ring, last);
      last = ring.stage;
      ring.Advance();
    }
    WgmmaWait<0>();
    Release(ring, last);
    WgmmaResults(d);
  }

  // Calls f(n, row, element of D) for those of column block j of D that are in
  // use, as wgmma.cuh gives it to thread `owner` of the consumers, of the tile
  // that begins with first_row.
  template <typename F>
  __device__ void ForEach(int first_row, int owner, int j, const F& f) const {
    const int n = 8 * j + 2 * (owner % 4);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = owner / 32 * 16 + owner % 32 / 4 + 8 * half;
      if (row >= t.plan.tile_rows || first_row + row >= t.rows) continue;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        if (n + i < count) {
          f(static_cast<int64_t>(n + i) * t.rows + first_row + row,
            2 * half + i);
        }
      }
    }
  }
  // What is in out there, or 0 if it does not count.
  __device__ float4 Old(int first_row, int owner, int j) const {
    float old[4] = {};
    if (t.accumulate) {
      ForEach(first_row, owner, j, [&](int64_t at, int e) {
        old[e] = t.float_out ? static_cast<const float*>(t.out)[at]
                             : ToFloat(static_cast<const BFloat16*>(t.out)[at]);
      });
    }
    return make_float4(old[0], old[1], old[2], old[3]);
  }
  __device__ void WriteBlock(int first_row, int owner, int j, float4 d,
                             float4 old) const {
    const float sum[4] = {old.x + d.x, old.y + d.y, old.z + d.z, old.w + d.w};
    ForEach(first_row, owner, j, [&](int64_t at, int e) {
      if (t.float_out) {
        static_cast<float*>(t.out)[at] = sum[e];
      } else {
        static_cast<BFloat16*>(t.out)[at] = FromFloat<BFloat16>(sum[e]);
      }
    });
  }
  __device__ static float4 BlockOf(const float (&d)[kN / 2], int j) {
    return make_float4(d[4 * j], d[4 * j + 1], d[4 * j + 2], d[4 * j + 3]);
  }

  __device__ void Run(BlockRing ring) const {
    for (int i = 0; i < t.plan.tiles; ++i) {
      float d[kN / 2];
      Multiply(ring, d);
      if (leaves_sums()) {
        SyncConsumers();  // The ring has been read.
#pragma unroll
        for (int j = 0; j < kBlocks; ++j) {
          sums[j * kConsumers + thread()] = BlockOf(d, j);
        }
      } else {
#pragma unroll
        for (int j = 0; j < kBlocks; ++j) {
          const int row = share.FirstRow(t, i);
          WriteBlock(row, thread(), j, BlockOf(d, j), Old(row, thread(), j));
        }
      }
    }
  }

  // This block's part of what is added up.
  __device__ int NumSums() const { return kBlocks * kOwners / t.plan.cluster; }
  // When the kernels before have ended.
  __device__ void ReadEarly() {
    count = min(*t.count, t.num_rows);
    const int at = share.rank * NumSums() + thread();
    if (leaves_sums() && thread() < NumSums()) {
      first_old = Old(share.FirstRow(t, 0), at % kOwners, at / kOwners);
    }
  }

  // What the cluster's warpgroups left in `sums`, in the order of blocks, then
  // of warpgroups.
  __device__ void AddUp() const {
    const int size = NumSums();
    for (int i = thread(); i < size; i += kConsumers) {
      const int owner = (share.rank * size + i) % kOwners;
      const int j = (share.rank * size + i) / kOwners;
      float4 sum = make_float4(0, 0, 0, 0);
      for (int part = 0; part < t.plan.cluster; ++part) {
        for (int from = owner; from < kConsumers; from += kOwners) {
          const float4 d = *InBlock(sums + j * kConsumers + from, part);
          sum.x += d.x;
          sum.y += d.y;
          sum.z += d.z;
          sum.w += d.w;
        }
      }
      const int row = share.FirstRow(t, 0);
      WriteBlock(row, owner, j, sum,
                 i == thread() ? first_old : Old(row, owner, j));
    }
  }
};

// Until all sums of the block, or of the cluster, are there.
__device__ void SyncSums(const StreamTask& t) {
  if (t.plan.cluster > 1) {
    SyncCluster();
  } else {
    __syncthreads();
  }
}

#endif

// Few registers, so that a block always fits beside another and short kernels:
// where one does not, some multiprocessor gets two blocks of a kernel and
// another none, and the kernel takes a fifth longer.
template <int kN, int kBoxes>
__global__ void __maxnreg__(48)
    StreamKernel(const __grid_constant__ StreamTask t) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(1024) unsigned char shared[];
  StartNext();
  const Ring<kN, kBoxes> ring(shared, RingShape<kN, kBoxes>(t.plan.tile_rows));
  const Share share(t);
  const Producer<kN, kBoxes> producer = {t, share};
  Consumer<kN, kBoxes> consumer = {t, share, reinterpret_cast<float4*>(shared)};
  const bool produces = threadIdx.x == kConsumers;
  const bool consumes = threadIdx.x < kConsumers;
  if (produces) producer.Start(ring);
  __syncthreads();
  if (produces) producer.Run(ring);
  if (consumes) {
    WaitForPrevious();
    consumer.ReadEarly();
    consumer.Run(ring);
  }
  if (!consumer.leaves_sums()) return;
  __syncwarp();
  SyncSums(t);
  if (consumes) consumer.AddUp();
  if (t.plan.cluster > 1) SyncCluster();  // The others may still read the sums.
#endif
}

// Every kernel there is, by the most rows it takes and the boxes of a chunk.
struct Row {
  int max_rows;
  int boxes;
  int (*ring_bytes)(int tile_rows);
  void (*kernel)(const StreamTask);
};
template <int kN, int kBoxes>
constexpr Row RowOf() {
  return {kN, kBoxes,
          [](int tile_rows) { return RingShape<kN, kBoxes>(tile_rows).bytes; },
          &StreamKernel<kN, kBoxes>};
}
constexpr Row kTable[] = {RowOf<8, 1>(),
                          RowOf<8, 2>(),
                          RowOf<16, 1>(),
                          RowOf<16, 2>(),
                          RowOf<kMaxStreamRows, 1>(),
                          RowOf<kMaxStreamRows, 2>()};

const Row& RowFor(int num_rows, int boxes) {
  const Row* row = kTable;
  while (row->max_rows < num_rows || row->boxes != boxes) ++row;
  return *row;
}

}  // namespace

int StreamBoxRows(int num_rows) { return RowFor(num_rows, 1).max_rows; }

absl::Status PrepareStreamProducts() {
  for (const Row& row : kTable) {
    const cudaError_t error = cudaFuncSetAttribute(
        row.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
        kMaxRingBytes + kBarrierBytes);
    if (error != cudaSuccess) return ToStatus(error, "products of few rows");
  }
  return absl::OkStatus();
}

absl::Status LaunchStreamProduct(const StreamTask& task, const Launch& on) {
  const StreamPlan& plan = task.plan;
  const Row& row = RowFor(task.num_rows, plan.boxes);
  const int bytes = row.ring_bytes(plan.tile_rows) + kBarrierBytes;
  return LaunchDependent("a product of few rows", row.kernel,
                         {.grid = dim3(plan.blocks),
                          .block = dim3(kThreads),
                          .shared_bytes = static_cast<size_t>(bytes),
                          .cluster = plan.cluster},
                         on, task);
}

}  // namespace bole::cuda
