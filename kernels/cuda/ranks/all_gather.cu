// Gathers the ranks' columns into whole rows: each rank writes its columns into
// the memory of all ranks, signals that, and copies the rows out when all ranks
// have signalled.
#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ranks/push.cuh"
#include "kernels/cuda/ranks/push.h"

namespace bole::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kMostBlocks = 2 * 132;

__device__ inline int RowsOf(const GatherRange& range) {
  return max(0, min(range.num_rows, *range.count - range.first_row));
}

template <typename T>
__device__ T* WholeOf(const PushGroup& group, int rank) {
  return reinterpret_cast<T*>(group.arena[rank] + WholeOffset(group.count));
}

// T is float4 where all ranks' columns begin at multiples of 4, otherwise
// float; widths are in elements of T.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    SendColumnsKernel(const __grid_constant__ GatherRange range, int width,
                      int own_width, int own_first,
                      const __grid_constant__ PushGroup group) {
  WaitForPrevious();
  PushCounts* const own = CountsOf(group, group.rank);
  const uint64_t call = LoadOwnCount(&own->gathers) / kCallUnits;
  // Wait until all ranks have read the rows of the previous call.
  WaitForRanks(group, own->taken, call * kCallUnits);
  const T* const part = reinterpret_cast<const T*>(range.part) +
                        int64_t{range.first_row} * own_width;
  const int64_t count = int64_t{RowsOf(range)} * own_width;
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count;
       i += step) {
    const T x = part[i];
    const int64_t to = i / own_width * width + own_first + i % own_width;
    for (int r = 0; r < group.count; ++r) WholeOf<T>(group, r)[to] = x;
  }
  __threadfence_system();
  __syncthreads();
  if (threadIdx.x < group.count) {
    AddToCount(&CountsOf(group, threadIdx.x)->arrived[group.rank],
               BlockUnits());
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    TakeRowsKernel(const __grid_constant__ GatherRange range, int width,
                   const __grid_constant__ PushGroup group) {
  WaitForPrevious();
  PushCounts* const own = CountsOf(group, group.rank);
  const uint64_t call = LoadOwnCount(&own->gathers) / kCallUnits;
  WaitForRanks(group, own->arrived, (call + 1) * kCallUnits);
  const T* const whole = WholeOf<T>(group, group.rank);
  T* const out =
      reinterpret_cast<T*>(range.whole) + int64_t{range.first_row} * width;
  const int64_t count = int64_t{RowsOf(range)} * width;
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count;
       i += step) {
    out[i] = __ldcg(whole + i);
  }
  __threadfence_system();
  __syncthreads();
  if (threadIdx.x < group.count) {
    AddToCount(&CountsOf(group, threadIdx.x)->taken[group.rank], BlockUnits());
  }
  if (threadIdx.x == 0) AddToOwnCount(&own->gathers, BlockUnits());
}

__global__ void __launch_bounds__(kThreads)
    PlaceColumnsKernel(const float* part, int first, int width,
                       const __grid_constant__ GatherRange range) {
  WaitForPrevious();
  const int64_t count = int64_t{RowsOf(range)} * width;
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count;
       i += step) {
    const int64_t row = range.first_row + i / width;
    range.whole[row * range.width + first + i % width] = part[i];
  }
}

LaunchShape ShapeFor(int64_t count) {
  const int64_t blocks = (count + kThreads - 1) / kThreads;
  return {.grid = dim3(static_cast<unsigned>(
              std::clamp<int64_t>(blocks, 1, kMostBlocks))),
          .block = dim3(kThreads)};
}

}  // namespace

absl::Status PushAllGather(const GatherRange& range, const PushGroup& group,
                           const Launch& on) {
  const auto run = [&](auto element) {
    using T = decltype(element);
    constexpr int kFloats = sizeof(T) / sizeof(float);
    const int width = range.width / kFloats;
    const int own_width = range.own_width / kFloats;
    const absl::Status sent = LaunchDependent(
        "sending of columns", SendColumnsKernel<T>,
        ShapeFor(int64_t{range.num_rows} * own_width), on, range, width,
        own_width, range.own_first / kFloats, group);
    if (!sent.ok()) return sent;
    return LaunchDependent("gathering of columns", TakeRowsKernel<T>,
                           ShapeFor(int64_t{range.num_rows} * width), on, range,
                           width, group);
  };
  const auto is_vector = [](const float* rows) {
    return reinterpret_cast<uintptr_t>(rows) % sizeof(float4) == 0;
  };
  const bool is_aligned =
      range.are_aligned && is_vector(range.part) && is_vector(range.whole);
  return is_aligned ? run(float4()) : run(float());
}

absl::Status PlaceColumns(const float* part, int first, int width,
                          const GatherRange& range, const Launch& on) {
  return LaunchDependent("placing of columns", PlaceColumnsKernel,
                         ShapeFor(int64_t{range.num_rows} * width), on, part,
                         first, width, range);
}

}  // namespace bole::cuda
