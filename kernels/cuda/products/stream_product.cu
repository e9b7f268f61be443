// out = x W^T of few rows, at the speed at which W can be read.
//
// One block for each multiprocessor. In a block, one thread keeps the copy
// engine busy: chunks of a tile of W and of x go to a ring of stages in shared
// memory, and two warpgroups multiply them. A single row of x is loaded
// separately (stream_row.cuh). W is never written, so its copies start before
// the previous kernels have ended, and the ring leaves room for two such blocks
// on a multiprocessor.
//
// Every block reads about as many bytes of W. The sums of a cluster's blocks
// over their parts of the columns are added up in the order of the columns, so
// results do not depend on timing.
#include "kernels/cuda/products/stream_product.h"

#include <algorithm>
#include <cstddef>

#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/products/stream_ring.cuh"
#include "kernels/cuda/products/stream_row.cuh"
#include "kernels/cuda/products/stream_sums.cuh"
#include "kernels/cuda/products/wgmma_few.cuh"
#include "kernels/cuda/wgmma.cuh"

namespace bole::cuda {
namespace {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

template <int kRows, int kBoxes, Side kSide>
struct Consumer {
  static constexpr int kN = kProductRows<kRows>;
  using BlockRing = Ring<kRows, kBoxes>;
  using Sums = StreamSums<kRows, kBoxes, kSide>;

  const StreamTask& t;
  const Share& share;

  // Every warp calls it when it is done with the stage.
  __device__ static void Release(const BlockRing& ring, int stage) {
    if (threadIdx.x % 32 == 0) Arrive(ring.empty(stage));
  }

  // The operand of 16 columns of x, in the chunk that the ring is at.
  __device__ static uint64_t XOperand(const BlockRing& ring, int chunk, int box,
                                      int k) {
    if constexpr (kRows > 1) return WgmmaOperand(ring.x(box) + 32 * k);
    return WgmmaVector(ring.row() + (chunk * kBoxes + box) * kRowBytes +
                       32 * k);
  }

  // d = the tile's products over this warpgroup's columns.
  __device__ void Multiply(BlockRing& ring, float (&d)[kN / 2]) const {
    const int group = static_cast<int>(threadIdx.x) / 128;
    const int box = Sums::kHalves ? group : 0;
    const int first_byte = Sums::kHalves ? 0 : group * 64 * kRowBytes;
    int last = 0;
    for (int i = 0; i < share.num_chunks; ++i) {
      WaitBarrier(ring.full(ring.stage), ring.parity);
      const uint32_t w = ring.weight(box) + first_byte;
      WgmmaFence();
#pragma unroll
      for (int k = 0; k < kBoxColumns / 16; ++k) {
        WgmmaFew<kN>(d, WgmmaOperand(w + 32 * k), XOperand(ring, i, box, k),
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

  __device__ void Run(BlockRing ring, const Sums& sums) const {
    for (int i = 0; i < t.plan.tiles; ++i) {
      float d[kN / 2];
      Multiply(ring, d);
      sums.Take(i, d);
    }
  }
};

#endif

// Few registers are used, so that a block always fits beside another one and
// short kernels: otherwise some multiprocessor gets two blocks of a kernel and
// another one none, and the kernel takes a fifth longer.
template <int kRows, int kBoxes, Side kSide>
__global__ void __maxnreg__(48)
    StreamKernel(const __grid_constant__ StreamTask t) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(1024) unsigned char shared[];
  StartNext();
  constexpr int kN = kProductRows<kRows>;
  auto& front = *reinterpret_cast<StreamFront<kN>*>(shared);
  const int front_bytes = StreamFront<kN>::Bytes(t);
  const Ring<kRows, kBoxes> ring(shared, front_bytes,
                                 RingShape<kRows, kBoxes>(t, front_bytes));
  const Share share(t);
  const Producer<kRows, kBoxes, kSide> producer = {t, share};
  const Consumer<kRows, kBoxes, kSide> consumer = {t, share};
  using Sums = StreamSums<kRows, kBoxes, kSide>;
  Sums sums = {t, share, reinterpret_cast<float4*>(shared + front_bytes),
               front};
  const bool produces = threadIdx.x == kConsumers;
  const bool consumes = threadIdx.x < kConsumers;
  if (produces) {
    InitBarrier(AddressOf(&front.scales_written), 32);
    InitBarrier(AddressOf(&front.ups_written), kConsumers);
    InitBarrier(AddressOf(&front.sums_received), 1);
    producer.Start(ring);
    ArriveExpecting(AddressOf(&front.sums_received), Sums::kSentBytes);
  }
  if (t.plan.cluster > 1) {
    SyncCluster();  // The other block has initialised its barrier.
  } else {
    __syncthreads();
  }
  if (produces) producer.Run(ring);
  if (consumes) {
    sums.ReadOld();
    WaitForPrevious();
    if constexpr (kRows == 1) {
      LoadRow(t, share, ring.row());
      SyncConsumers();
    }
    sums.ReadEarly();
    consumer.Run(ring, sums);
    if (sums.is_shared()) sums.AddUp();
  }
  if (kSide == Side::kBehind && threadIdx.x >= kThreads) {
    WaitForPrevious();
    FindScales<kRows>(t, front);
  }
#endif
}

// All kernels, by the most rows that they take, the boxes of a chunk and their
// side of a norm.
struct Row {
  int max_rows;
  int boxes;
  Side side;
  int threads;
  int (*shared_bytes)(const StreamTask& task);
  void (*kernel)(const StreamTask);
};
template <int kRows, int kBoxes, Side kSide>
constexpr Row RowOf() {
  return {kRows,
          kBoxes,
          kSide,
          kSide == Side::kBehind ? kThreads + 32 : kThreads,
          [](const StreamTask& task) {
            const int front = StreamFront<kProductRows<kRows>>::Bytes(task);
            return front + RingShape<kRows, kBoxes>(task, front).bytes;
          },
          &StreamKernel<kRows, kBoxes, kSide>};
}
constexpr Row kTable[] = {RowOf<1, 1, Side::kNone>(),
                          RowOf<1, 2, Side::kNone>(),
                          RowOf<8, 1, Side::kNone>(),
                          RowOf<8, 2, Side::kNone>(),
                          RowOf<16, 1, Side::kNone>(),
                          RowOf<16, 2, Side::kNone>(),
                          RowOf<kMaxStreamRows, 1, Side::kNone>(),
                          RowOf<kMaxStreamRows, 2, Side::kNone>(),
                          RowOf<1, 1, Side::kAhead>(),
                          RowOf<1, 2, Side::kAhead>(),
                          RowOf<8, 1, Side::kAhead>(),
                          RowOf<8, 2, Side::kAhead>(),
                          RowOf<1, 1, Side::kBehind>(),
                          RowOf<1, 2, Side::kBehind>(),
                          RowOf<8, 1, Side::kBehind>(),
                          RowOf<8, 2, Side::kBehind>()};

const Row& RowFor(const StreamTask& task) {
  const int rows = task.row != nullptr ? 1 : std::max(2, task.num_rows);
  const Row* row = kTable;
  while (row->max_rows < rows || row->boxes != task.plan.boxes ||
         row->side != task.side) {
    ++row;
  }
  return *row;
}

}  // namespace

int StreamBoxRows(int num_rows) {
  return num_rows <= 8 ? 8 : num_rows <= 16 ? 16 : kMaxStreamRows;
}

int SquareParts(const StreamPlan& plan) {
  return plan.blocks / plan.cluster * PartsOfTile(plan);
}

absl::Status PrepareStreamProducts() {
  for (const Row& row : kTable) {
    const cudaError_t error = cudaFuncSetAttribute(
        row.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
        kClusterBlockBytes);
    if (error != cudaSuccess) return ToStatus(error, "products of few rows");
  }
  return absl::OkStatus();
}

absl::Status LaunchStreamProduct(const StreamTask& task, const Launch& on) {
  const StreamPlan& plan = task.plan;
  const Row& row = RowFor(task);
  const int bytes = row.shared_bytes(task);
  return LaunchDependent("a product of few rows", row.kernel,
                         {.grid = dim3(plan.blocks),
                          .block = dim3(row.threads),
                          .shared_bytes = static_cast<size_t>(bytes),
                          .cluster = plan.cluster},
                         on, task);
}

}  // namespace bole::cuda
