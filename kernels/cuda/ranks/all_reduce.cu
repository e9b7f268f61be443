// Computes the sum over the ranks, the residual stream and its norm in one
// kernel. Every rank sends its part to all others.
#include "kernels/cuda/ranks/all_reduce.cuh"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ranks/push.cuh"
#include "kernels/cuda/ranks/push.h"

namespace bole::cuda {
namespace {

// Adds a row's parts to the residual stream and normalises the row. The whole
// block calls it. parts_of(v, add) calls add(part) for each part of the row's
// vector v.
template <typename T, int kVectors, typename F>
__device__ void AddAndNormRow(
    const AllReduceAddNormParams& p, int64_t row,
    const float (&weight)[kVectors][Vector<T>::kCount], float* shared,
    const F& parts_of) {
  using V = Vector<T>;
  const int num_vectors = p.width / V::kCount;
  auto* const residual =
      reinterpret_cast<uint4*>(As<T>(p.residual) + row * p.width);
  auto* const out = reinterpret_cast<uint4*>(As<T>(p.out) + row * p.width);
  V after[kVectors];
  float squares = 0;
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const int v = static_cast<int>(threadIdx.x + i * blockDim.x);
    if (v >= num_vectors) continue;
    const V before(residual[v]);
    PartsSum<T> sum;
    parts_of(v, [&](const V& part) { sum.Add(part); });
#pragma unroll
    for (int e = 0; e < V::kCount; ++e) {
      after[i].at[e] = sum.AddedTo(before, e);
      squares += ToFloat(after[i].at[e]) * ToFloat(after[i].at[e]);
    }
    residual[v] = after[i].words;
  }
  NormRow<T, kVectors>(p, out, weight, after, squares, shared);
}

// Each block has one row or several, and sends its parts of all of them before
// it waits for any. So the block of another rank that it waits for has sent its
// parts or will send them, whatever else runs there.
template <typename T, int kVectors, int kPeers>
__global__ void __launch_bounds__(kMaxThreads)
    PushAllReduceKernel(AllReduceAddNormParams p, int first_row, int num_rows,
                        const __grid_constant__ PushGroup group) {
  using V = Vector<T>;
  __shared__ float shared[kMaxThreads / kWarp];
  StartNext();
  float weight[kVectors][V::kCount];
  LoadWeights<T, kVectors>(p, weight);
  WaitForPrevious();

  PushCounts* const counts = CountsOf(group, group.rank);
  const int num_vectors = p.width / V::kCount;
  const auto own = [&](int row, int v) {
    const auto* partial = reinterpret_cast<const uint4*>(
        As<T>(p.partial) + (int64_t{first_row} + row) * p.width);
    return Sendable<T>(partial[v]);
  };
  // Each thread loads its first vector of the block's first row here, so that
  // this load does not wait for the counts. Every row that there is room for
  // may be read.
  const int first_vector = static_cast<int>(threadIdx.x);
  uint4 first_part = {};
  if (first_vector < num_vectors) {
    first_part = own(static_cast<int>(blockIdx.x), first_vector);
  }
  const int buffer = static_cast<int>(LoadOwnCount(&counts->reductions) /
                                      kCallUnits % kSlotBuffers);
  const int num = min(num_rows, *p.rows.count - first_row);
  const auto send = [&](int row, int v, const uint4& part) {
    for (int to = 0; to < group.count; ++to) {
      if (to == group.rank) continue;
      StoreShared(
          SlotOf(group, to, buffer, group.rank, int64_t{row} * num_vectors + v),
          part);
    }
  };
  for (int row = blockIdx.x; row < num; row += gridDim.x) {
    for (int v = first_vector; v < num_vectors; v += blockDim.x) {
      const bool is_loaded = row == blockIdx.x && v == first_vector;
      send(row, v, is_loaded ? first_part : own(row, v));
    }
  }
  for (int row = blockIdx.x; row < num; row += gridDim.x) {
    const auto parts_of = [&](int v, const auto& add) {
      TakeParts<T, kPeers>(
          group, buffer, int64_t{row} * num_vectors + v,
          [&] { return own(row, v); }, add);
    };
    AddAndNormRow<T, kVectors>(p, int64_t{first_row} + row, weight, shared,
                               parts_of);
  }
  __syncthreads();  // All threads have read the count.
  if (threadIdx.x == 0 && num > 0) {
    AddToOwnCount(&counts->reductions, BlockUnits());
  }
}

template <typename T, int kVectors>
__global__ void __launch_bounds__(kMaxThreads)
    AddPartsKernel(AllReduceAddNormParams p, int first_row, int num_rows,
                   const uint4* parts, int num_ranks) {
  using V = Vector<T>;
  __shared__ float shared[kMaxThreads / kWarp];
  StartNext();
  float weight[kVectors][V::kCount];
  LoadWeights<T, kVectors>(p, weight);
  WaitForPrevious();
  const int num_vectors = p.width / V::kCount;
  const int row = blockIdx.x;
  if (row >= min(num_rows, *p.rows.count - first_row)) return;
  const auto parts_of = [&](int v, const auto& add) {
    for (int r = 0; r < num_ranks; ++r) {
      const int64_t of_rank = int64_t{r} * num_rows + row;
      add(V(Sendable<T>(parts[of_rank * num_vectors + v])));
    }
  };
  AddAndNormRow<T, kVectors>(p, int64_t{first_row} + row, weight, shared,
                             parts_of);
}

__global__ void ClearKernel(uint32_t* slots, int64_t num_words, uint32_t empty,
                            PushCounts* counts) {
  WaitForPrevious();
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
       i < num_words; i += step) {
    slots[i] = empty;
  }
  if (blockIdx.x == 0 && threadIdx.x == 0) *counts = {};
}

}  // namespace

absl::Status CheckReduceWidth(int width, ElementType type) {
  const int per_vector = static_cast<int>(sizeof(uint4) / ElementBytes(type));
  if (width % per_vector == 0 &&
      width / per_vector <= kMostVectors * kMaxThreads) {
    return absl::OkStatus();
  }
  return absl::UnimplementedError(absl::StrCat(
      "sums over ranks of rows that are ", width, " wide: only multiples of ",
      per_vector, " up to ", kMostVectors * kMaxThreads * per_vector));
}

absl::Status ClearArena(const PushGroup& group, const Launch& on) {
  char* const arena = group.arena[group.rank];
  const uint32_t empty =
      on.type == ElementType::kFloat32 ? kEmptyFloat : kEmptyWord;
  return LaunchDependent(
      "emptying of a rank's memory", ClearKernel,
      {.grid = dim3(256), .block = dim3(256)}, on,
      reinterpret_cast<uint32_t*>(arena),
      static_cast<int64_t>(WholeOffset(group.count) / sizeof(empty)), empty,
      reinterpret_cast<PushCounts*>(arena + CountsOffset(group.count)));
}

absl::Status PushAllReduceAddNorm(const AllReduceAddNormParams& params,
                                  int first_row, int num_rows,
                                  const PushGroup& group, const Launch& on) {
  return WithVectors(
      params.width, on.type, [&](auto element, auto vectors, int num_vectors) {
        using T = decltype(element);
        constexpr int kVectors = decltype(vectors)::value;
        const ReduceKernel kernel =
            group.count <= 2   ? PushAllReduceKernel<T, kVectors, 2>
            : group.count <= 4 ? PushAllReduceKernel<T, kVectors, 4>
                               : PushAllReduceKernel<T, kVectors, kMaxPeers>;
        return LaunchReduce(kernel, num_vectors, params, first_row, num_rows,
                            group, on);
      });
}

absl::Status AddPartsAndNorm(const AllReduceAddNormParams& params,
                             int first_row, int num_rows, const void* parts,
                             int num_ranks, const Launch& on) {
  return WithVectors(
      params.width, on.type, [&](auto element, auto vectors, int num_vectors) {
        return LaunchDependent(
            "sum of the ranks' parts",
            AddPartsKernel<decltype(element), decltype(vectors)::value>,
            {.grid = dim3(num_rows), .block = dim3(ThreadsFor(num_vectors))},
            on, params, first_row, num_rows, static_cast<const uint4*>(parts),
            num_ranks);
      });
}

}  // namespace bole::cuda
