// out = x W^T of 33 to 64 rows, near the speed at which W can be read.
//
// One block for each multiprocessor. In a block, up to three warpgroups
// multiply, each 64 rows of W with all of x. A thread for each of them, or two
// for a single one, copies its rows to a ring in shared memory, and one more
// copies x. W is never written, so its copies start before the previous kernels
// have ended.
//
// Besides the bytes of W it matters how early x is requested: its boxes come
// from L2, after all boxes of W that are in flight. Where pairs of blocks hold
// W in one tile each, the two blocks divide the columns, and so the copies of
// x, and send each other the sums of the rows of x that the other one writes:
// two numbers are added, so results do not depend on timing.
#include "kernels/cuda/products/wide_product.h"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/hopper.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/products/wgmma_few.cuh"
#include "kernels/cuda/products/wide_ring.cuh"
#include "kernels/cuda/products/wide_sums.cuh"
#include "kernels/cuda/wgmma.cuh"

namespace bole::cuda {
namespace {

// After the warpgroups come a warp for each thread that copies W, and one for
// x.
constexpr int ThreadsOf(int groups) {
  return groups * kGroupThreads + (WeightThreads(groups) + 1) * 32;
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

template <int kN>
struct Consumer {
  const WideTask& t;
  const WideShare& share;
  const WideSums<kN>& out;

  // Every warp calls it when it is done with the boxes.
  __device__ void Release(const WideRings<kN>& rings, const RingPlace& x,
                          const RingPlace& unit) const {
    if (threadIdx.x % 32 == 0) {
      Arrive(rings.unit_empty(unit.slot));
      Arrive(rings.x_empty(x.slot));
    }
    __syncwarp();
  }

  // d = the products of this warpgroup's rows of the tile. While the products
  // of one chunk run, those of the next are queued.
  __device__ void Multiply(const WideRings<kN>& rings, RingPlace& x,
                           RingPlace& unit, float (&d)[kN / 2]) const {
    RingPlace last_x = x;
    RingPlace last_unit = unit;
    for (int i = 0; i < share.num_chunks; ++i) {
      WaitBarrier(rings.unit_full(unit.slot), unit.parity);
      WaitBarrier(rings.x_full(x.slot), x.parity);
      __syncwarp();
      const uint64_t w_operand = WgmmaOperand(rings.unit(unit.slot));
      const uint64_t x_operand = WgmmaOperand(rings.x(x.slot));
      WgmmaFence();
#pragma unroll
      for (int k = 0; k < kWideBoxColumns / 16; ++k) {
        // 32 bytes further along the rows.
        WgmmaFew<kN>(d, w_operand + 2 * k, x_operand + 2 * k, i > 0 || k > 0);
      }
      WgmmaCommit();
      WgmmaWait<1>();
      if (i > 0) Release(rings, last_x, last_unit);
      last_x = x;
      last_unit = unit;
      x.Advance(1, kXStages);
      unit.Advance(t.plan.groups, t.plan.units);
    }
    WgmmaWait<0>();
    Release(rings, last_x, last_unit);
    WgmmaResults(d);
  }

  __device__ void Run(const WideRings<kN>& rings) const {
    RingPlace x;
    RingPlace unit = {.slot = out.group(), .parity = 0};
    for (int i = 0; i < t.plan.tiles; ++i) {
      float d[kN / 2];
      Multiply(rings, x, unit, d);
      if (t.plan.tiles == 1) {
        out.Leave(d);
      } else if (t.float_out) {
        out.template WriteTile<float>(
            share.first_output + i * share.output_step, d);
      } else {
        out.template WriteTile<BFloat16>(
            share.first_output + i * share.output_step, d);
      }
    }
  }
};

#endif

template <int kN>
__global__ void __launch_bounds__(ThreadsOf(kMaxWideGroups), 1)
    WideKernel(const __grid_constant__ WideTask t) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(1024) unsigned char shared[];
  const WidePlan& p = t.plan;
  const WideRings<kN> rings(shared, p);
  const WideShare share(t);
  // The last of the barriers.
  const unsigned char* sums_received =
      shared + WideBytes(p, kN) + kWideBarrierBytes - sizeof(uint64_t);
  const WideSums<kN> sums = {t, share, reinterpret_cast<float4*>(shared),
                             sums_received};
  const int producer = static_cast<int>(threadIdx.x) - p.groups * kGroupThreads;
  const bool copies = producer >= 0 && producer % 32 == 0;
  const bool copies_x = copies && producer / 32 == WeightThreads(p.groups);
  const bool copies_weight = copies && !copies_x;
  WeightProducer<kN> weight_producer = {t, share, rings, producer / 32};
  const XProducer<kN> x_producer = {t, share, rings};
  if (copies_weight) weight_producer.Start();
  if (copies_x) {
    InitBarrier(AddressOf(sums_received), 1);
    x_producer.Start();
    ArriveExpecting(AddressOf(sums_received),
                    sums.NumReceived() * static_cast<int>(sizeof(float4)));
  }
  __syncwarp();
  __syncthreads();
  if (copies_weight) {
    weight_producer.Run();
    // Not earlier: what the next kernels prefetch would delay W.
    StartNext();
  }
  if (copies_x) {
    WaitForPrevious();
    x_producer.Run();
  }
  if (producer < 0) {
    WaitForPrevious();
    Consumer<kN>{t, share, sums}.Run(rings);
    if (p.tiles == 1 && t.float_out) {
      sums.template WriteSums<float>();
    } else if (p.tiles == 1) {
      sums.template WriteSums<BFloat16>();
    }
  } else if (p.splits > 1) {
    MeetPair();
  }
#endif
}

// All kernels, by the most rows of x.
struct Row {
  int max_rows;
  void (*kernel)(const WideTask);
};
template <int kN>
constexpr Row RowOf() {
  return {kN, &WideKernel<kN>};
}
constexpr Row kTable[] = {RowOf<48>(), RowOf<kMaxWideRows>()};

const Row& RowFor(int num_rows) {
  const Row* row = kTable;
  while (row->max_rows < num_rows) ++row;
  return *row;
}

}  // namespace

int WideBoxRows(int num_rows) { return RowFor(num_rows).max_rows; }

int WideUnits(int groups) { return kMaxUnits / groups * groups; }

absl::StatusOr<int> MaxWideClusters(int splits) {
  int fewest = std::numeric_limits<int>::max();
  for (const Row& row : kTable) {
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim = {static_cast<unsigned>(splits), 1, 1};
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(splits);
    config.blockDim = dim3(ThreadsOf(kMaxWideGroups));
    config.dynamicSmemBytes = kMaxWideBytes + kWideBarrierBytes;
    config.attrs = &attribute;
    config.numAttrs = 1;
    int clusters = 0;
    const cudaError_t error =
        cudaOccupancyMaxActiveClusters(&clusters, row.kernel, &config);
    if (error != cudaSuccess) return ToStatus(error, "clusters of products");
    fewest = std::min(fewest, clusters);
  }
  return fewest;
}

absl::Status PrepareWideProducts() {
  for (const Row& row : kTable) {
    const cudaError_t error = cudaFuncSetAttribute(
        row.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
        kMaxWideBytes + kWideBarrierBytes);
    if (error != cudaSuccess) return ToStatus(error, "products of many rows");
  }
  return absl::OkStatus();
}

absl::Status LaunchWideProduct(const WideTask& task, const Launch& on) {
  const WidePlan& plan = task.plan;
  const Row& row = RowFor(task.num_rows);
  const int bytes = WideBytes(plan, row.max_rows) + kWideBarrierBytes;
  return LaunchDependent("a product of many rows", row.kernel,
                         {.grid = dim3(plan.blocks),
                          .block = dim3(ThreadsOf(plan.groups)),
                          .shared_bytes = static_cast<size_t>(bytes),
                          .cluster = plan.splits},
                         on, task);
}

}  // namespace bole::cuda
