// Code shared by the kernels that add up the ranks' parts of rows.
#ifndef BOLE_KERNELS_CUDA_RANKS_ALL_REDUCE_CUH_
#define BOLE_KERNELS_CUDA_RANKS_ALL_REDUCE_CUH_

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "absl/status/status.h"
#include "kernels/collectives.h"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ranks/push.cuh"
#include "kernels/cuda/ranks/push.h"

namespace bole::cuda {

inline constexpr int kMaxThreads = 1024;
inline constexpr int kWarp = 32;
// The most vectors of a row that a thread holds.
inline constexpr int kMostVectors = 2;
// How many blocks of the largest size can run at once.
inline constexpr int kMostBlocks = 132;

// 16 bytes of a row, which are loaded, sent and stored at once.
template <typename T>
struct Vector {
  static constexpr int kCount = static_cast<int>(sizeof(uint4) / sizeof(T));
  union {
    uint4 words;
    T at[kCount];
  };
  __device__ Vector() {}
  __device__ explicit Vector(const uint4& w) : words(w) {}
};

template <typename T>
constexpr uint32_t kEmpty = sizeof(T) == sizeof(float) ? kEmptyFloat
                                                       : kEmptyWord;

template <typename T>
__device__ uint4 EmptyVector() {
  return make_uint4(kEmpty<T>, kEmpty<T>, kEmpty<T>, kEmpty<T>);
}

template <typename T>
__device__ bool HasCome(const uint4& v) {
  return v.x != kEmpty<T> && v.y != kEmpty<T> && v.z != kEmpty<T> &&
         v.w != kEmpty<T>;
}

// The vector as it is sent: an element that looks empty becomes +0.
template <typename T>
__device__ uint4 Sendable(uint4 v) {
  if (v.x == kEmpty<T>) v.x = 0;
  if (v.y == kEmpty<T>) v.y = 0;
  if (v.z == kEmpty<T>) v.z = 0;
  if (v.w == kEmpty<T>) v.w = 0;
  return v;
}

__device__ inline uint4* SlotOf(const PushGroup& group, int in, int buffer,
                                int from, int64_t vector) {
  char* const slot =
      group.arena[in] +
      static_cast<size_t>(buffer * group.count + from) * kSlotBytes;
  return reinterpret_cast<uint4*>(slot) + vector;
}

// Waits for each rank's part of a vector, calls add(part) in the order of the
// ranks, and empties the slots. own() returns this rank's part. Returns false
// if the part of some rank did not arrive.
template <typename T, int kPeers, typename Own, typename Add>
__device__ bool TakeParts(const PushGroup& group, int buffer, int64_t vector,
                          const Own& own, const Add& add) {
  using V = Vector<T>;
  uint4 parts[kPeers];
#pragma unroll
  for (int r = 0; r < kPeers; ++r) {
    if (r < group.count && r != group.rank) {
      parts[r] = LoadShared(SlotOf(group, group.rank, buffer, r, vector));
    }
  }
  bool have_come = true;
#pragma unroll
  for (int r = 0; r < kPeers; ++r) {
    if (r >= group.count) break;
    if (r == group.rank) {
      add(V(own()));
      continue;
    }
    uint4* const slot = SlotOf(group, group.rank, buffer, r, vector);
    Patience patience;
    while (!HasCome<T>(parts[r]) && !patience.IsOver(group, r)) {
      parts[r] = LoadShared(slot);
    }
    have_come = have_come && HasCome<T>(parts[r]);
    StoreShared(slot, EmptyVector<T>());
    add(V(parts[r]));
  }
  return have_come;
}

// Returns the sum over the block to every thread. All threads call it.
__device__ inline float SumOfBlock(float x, float* shared) {
  x = WarpSum(x);
  __syncthreads();  // Threads may still read `shared` from the previous call.
  if (threadIdx.x % kWarp == 0) shared[threadIdx.x / kWarp] = x;
  __syncthreads();
  float sum = 0;
  for (unsigned warp = 0; warp < blockDim.x / kWarp; ++warp)
    sum += shared[warp];
  return sum;
}

// The ranks' parts of a vector, added up in float32.
template <typename T>
struct PartsSum {
  float at[Vector<T>::kCount] = {};

  __device__ void Add(const Vector<T>& part) {
#pragma unroll
    for (int e = 0; e < Vector<T>::kCount; ++e) at[e] += ToFloat(part.at[e]);
  }
  // Returns element e of the residual stream, which was `before`, rounded once.
  // The result is never a minus zero, which could not be sent: at[e] starts as
  // a plus zero and so never is a minus zero, and a sum of bfloat16 is a
  // multiple of the least one, which is not rounded to 0 unless it is 0.
  __device__ T AddedTo(const Vector<T>& before, int e) const {
    return FromFloat<T>(ToFloat(before.at[e]) + at[e]);
  }
};

// Normalises a row of the residual stream. The whole block calls it. `x` are
// the thread's vectors of the row, and `squares` is the sum of the squares of
// their elements.
template <typename T, int kVectors>
__device__ void NormRow(const AllReduceAddNormParams& p, uint4* out,
                        const float (&weight)[kVectors][Vector<T>::kCount],
                        const Vector<T> (&x)[kVectors], float squares,
                        float* shared) {
  using V = Vector<T>;
  const int num_vectors = p.width / V::kCount;
  const float sum = SumOfBlock(squares, shared);
  const float scale = rsqrtf(sum / static_cast<float>(p.width) + p.epsilon);
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const int v = static_cast<int>(threadIdx.x + i * blockDim.x);
    if (v >= num_vectors) continue;
    V normed;
#pragma unroll
    for (int e = 0; e < V::kCount; ++e) {
      normed.at[e] = FromFloat<T>(ToFloat(x[i].at[e]) * scale * weight[i][e]);
    }
    out[v] = normed.words;
  }
}

// No kernel writes the weights, so they can be loaded before the previous
// kernels have ended.
template <typename T, int kVectors>
__device__ void LoadWeights(const AllReduceAddNormParams& p,
                            float (&weight)[kVectors][Vector<T>::kCount]) {
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    const int v = static_cast<int>(threadIdx.x + i * blockDim.x);
    if (v >= p.width / Vector<T>::kCount) continue;
#pragma unroll
    for (int e = 0; e < Vector<T>::kCount; ++e) {
      weight[i][e] = p.weight[v * Vector<T>::kCount + e];
    }
  }
}

// The threads of a block: as many as a row has vectors, rounded up to whole
// warps, at most kMaxThreads.
inline int ThreadsFor(int num_vectors) {
  return std::clamp((num_vectors + kWarp - 1) / kWarp * kWarp, kWarp,
                    kMaxThreads);
}

template <typename T, typename F>
absl::Status WithVectorsOf(int width, const F& f) {
  const int num_vectors = width / Vector<T>::kCount;
  if (num_vectors <= kMaxThreads) {
    return f(T(), std::integral_constant<int, 1>(), num_vectors);
  }
  return f(T(), std::integral_constant<int, kMostVectors>(), num_vectors);
}

// Calls f(element, vectors of a thread, vectors of a row).
template <typename F>
absl::Status WithVectors(int width, ElementType type, const F& f) {
  return type == ElementType::kFloat32 ? WithVectorsOf<float>(width, f)
                                       : WithVectorsOf<BFloat16>(width, f);
}

// The kernels of both forms (reduce_form.h), for rows first_row .. first_row +
// num_rows - 1.
using ReduceKernel = void (*)(AllReduceAddNormParams, int first_row,
                              int num_rows, PushGroup);

// A block has one row or several: no more blocks are launched than can run at
// once.
inline absl::Status LaunchReduce(ReduceKernel kernel, int num_vectors,
                                 const AllReduceAddNormParams& params,
                                 int first_row, int num_rows,
                                 const PushGroup& group, const Launch& on) {
  return LaunchDependent("sum over the ranks", kernel,
                         {.grid = dim3(std::min(num_rows, kMostBlocks)),
                          .block = dim3(ThreadsFor(num_vectors))},
                         on, params, first_row, num_rows, group);
}

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_RANKS_ALL_REDUCE_CUH_
