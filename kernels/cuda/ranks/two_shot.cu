// Computes the sum over the ranks in two steps, the residual stream and its
// norm in one kernel. Every rank owns a share of each row: all ranks send it
// their parts of that share, and it sends the finished share to all ranks.
#include <algorithm>
#include <cstdint>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ranks/all_reduce.cuh"
#include "kernels/cuda/ranks/push.cuh"
#include "kernels/cuda/ranks/push.h"

namespace bole::cuda {
namespace {

// A call of one rank. A block has rows blockIdx.x, blockIdx.x + gridDim.x and
// so on, and the rank sums up vectors rank * share .. of each.
struct Call {
  const PushGroup& group;
  int first_row;
  int num_rows;
  int num_vectors;  // Vectors of a row.
  int buffer;
  int share;  // Vectors of a rank; the last ranks may have fewer.

  // The rank that sums up vector v of a row.
  __device__ int Owner(int v) const { return v / share; }
  // Where vector v of a row is in a slot.
  __device__ int64_t InSlot(int row, int v) const {
    return int64_t{row} * num_vectors + v;
  }
  // Where it is among the rows of activations.
  __device__ int64_t InRows(int row, int v) const {
    return (int64_t{first_row} + row) * num_vectors + v;
  }
  // Where a rank receives the row's new vector v: in the slot of its own part,
  // which it never sends to itself.
  __device__ uint4* SumSlot(int rank, int row, int v) const {
    return SlotOf(group, rank, buffer, rank, InSlot(row, v));
  }
};

template <typename T>
__device__ uint4 OwnPart(const AllReduceAddNormParams& p, const Call& call,
                         int row, int v) {
  const auto* partial = reinterpret_cast<const uint4*>(As<T>(p.partial));
  return Sendable<T>(partial[call.InRows(row, v)]);
}

template <typename T>
__device__ void SendParts(const AllReduceAddNormParams& p, const Call& call) {
  const int rank = call.group.rank;
  for (int row = blockIdx.x; row < call.num_rows; row += gridDim.x) {
    for (int v = threadIdx.x; v < call.num_vectors; v += blockDim.x) {
      const int owner = call.Owner(v);
      if (owner == rank) continue;
      StoreShared(
          SlotOf(call.group, owner, call.buffer, rank, call.InSlot(row, v)),
          OwnPart<T>(p, call, row, v));
    }
  }
}

// Adds up the rank's share of the block's rows and sends it to all ranks,
// including this one. A sum that lacks a part is not sent, so that no rank
// continues with it.
template <typename T, int kPeers>
__device__ void SendSums(const AllReduceAddNormParams& p, const Call& call) {
  using V = Vector<T>;
  const PushGroup& group = call.group;
  const auto* const residual =
      reinterpret_cast<const uint4*>(As<T>(p.residual));
  const int first = min(group.rank * call.share, call.num_vectors);
  const int num = min(call.share, call.num_vectors - first);
  const int first_row = static_cast<int>(blockIdx.x);
  const int step = static_cast<int>(gridDim.x);
  const int rows_of_block = (call.num_rows - first_row + step - 1) / step;
  for (int i = threadIdx.x; i < rows_of_block * num; i += blockDim.x) {
    const int row = first_row + i / num * step;
    const int v = first + i % num;
    const V before(residual[call.InRows(row, v)]);
    PartsSum<T> sum;
    const bool have_come = TakeParts<T, kPeers>(
        group, call.buffer, call.InSlot(row, v),
        [&] { return OwnPart<T>(p, call, row, v); },
        [&](const V& part) { sum.Add(part); });
    if (!have_come) continue;
    V after;
#pragma unroll
    for (int e = 0; e < V::kCount; ++e) after.at[e] = sum.AddedTo(before, e);
    for (int to = 0; to < group.count; ++to) {
      StoreShared(call.SumSlot(to, row, v), Sendable<T>(after.words));
    }
  }
}

// Waits for the row's new vector v, and empties its slot.
template <typename T>
__device__ Vector<T> TakeSum(const Call& call, int row, int v) {
  uint4* const slot = call.SumSlot(call.group.rank, row, v);
  uint4 sum = LoadShared(slot);
  // The owner may itself be waiting for another rank, and should give up first.
  Patience patience(/*times=*/2);
  while (!HasCome<T>(sum) && !patience.IsOver(call.group, call.Owner(v))) {
    sum = LoadShared(slot);
  }
  StoreShared(slot, EmptyVector<T>());
  return Vector<T>(sum);
}

// As in the one-shot form, NormRow() gets the same vectors in the same threads.
template <typename T, int kVectors>
__device__ void TakeAndNormRow(
    const AllReduceAddNormParams& p, const Call& call, int row,
    const float (&weight)[kVectors][Vector<T>::kCount], float* shared) {
  using V = Vector<T>;
  auto* const residual = reinterpret_cast<uint4*>(As<T>(p.residual));
  auto* const out = reinterpret_cast<uint4*>(As<T>(p.out));
  V after[kVectors];
  float squares = 0;
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const int v = static_cast<int>(threadIdx.x + i * blockDim.x);
    if (v >= call.num_vectors) continue;
    after[i] = TakeSum<T>(call, row, v);
#pragma unroll
    for (int e = 0; e < V::kCount; ++e) {
      squares += ToFloat(after[i].at[e]) * ToFloat(after[i].at[e]);
    }
    residual[call.InRows(row, v)] = after[i].words;
  }
  NormRow<T, kVectors>(p, out + call.InRows(row, 0), weight, after, squares,
                       shared);
}

// Rows are divided among blocks as in the one-shot kernel, and a block waits
// only for the blocks of the same index on other ranks. Each block sends all
// its parts before it waits for any, and all sums of its share before it waits
// for those of others: the sums wait for parts alone, and the parts for
// nothing.
template <typename T, int kVectors, int kPeers>
__global__ void __launch_bounds__(kMaxThreads)
    TwoShotKernel(AllReduceAddNormParams p, int first_row, int num_rows,
                  const __grid_constant__ PushGroup group) {
  __shared__ float shared[kMaxThreads / kWarp];
  StartNext();
  float weight[kVectors][Vector<T>::kCount];
  LoadWeights<T, kVectors>(p, weight);
  WaitForPrevious();

  PushCounts* const counts = CountsOf(group, group.rank);
  const int num_vectors = p.width / Vector<T>::kCount;
  const Call call = {
      .group = group,
      .first_row = first_row,
      .num_rows = min(num_rows, *p.rows.count - first_row),
      .num_vectors = num_vectors,
      .buffer = static_cast<int>(LoadOwnCount(&counts->reductions) /
                                 kCallUnits % kSlotBuffers),
      .share = (num_vectors + group.count - 1) / group.count};
  // Each step ends with a warp barrier, so that no lane waits while another
  // lane of its warp still has something to send.
  SendParts<T>(p, call);
  __syncwarp();
  SendSums<T, kPeers>(p, call);
  __syncwarp();
  for (int row = blockIdx.x; row < call.num_rows; row += gridDim.x) {
    TakeAndNormRow<T, kVectors>(p, call, row, weight, shared);
  }
  __syncthreads();  // All threads have read the count.
  if (threadIdx.x == 0 && call.num_rows > 0) {
    AddToOwnCount(&counts->reductions, BlockUnits());
  }
}

}  // namespace

absl::Status PushTwoShotAddNorm(const AllReduceAddNormParams& params,
                                int first_row, int num_rows,
                                const PushGroup& group, const Launch& on) {
  return WithVectors(
      params.width, on.type, [&](auto element, auto vectors, int num_vectors) {
        using T = decltype(element);
        constexpr int kVectors = decltype(vectors)::value;
        const ReduceKernel kernel = group.count <= 4
                                        ? TwoShotKernel<T, kVectors, 4>
                                        : TwoShotKernel<T, kVectors, kMaxPeers>;
        return LaunchReduce(kernel, num_vectors, params, first_row, num_rows,
                            group, on);
      });
}

}  // namespace bole::cuda
