// The dense operators except the products. They are short kernels with one
// block for each row, or several where rows are few and wide.
#include <cstdint>
#include <initializer_list>
#include <type_traits>

#include "kernels/cuda/check.h"
#include "kernels/cuda/draft_inputs.h"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/operators.h"

namespace bole::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kAccessBytes = 16;

// The elements that a thread reads or writes in one access.
template <typename T, int kCount>
struct alignas(sizeof(T) * kCount) Elements {
  T at[kCount];
};

template <typename T, int kCount>
__device__ Elements<T, kCount> Load(const T* from) {
  return *reinterpret_cast<const Elements<T, kCount>*>(from);
}
template <typename T, int kCount>
__device__ void Store(T* to, const Elements<T, kCount>& elements) {
  *reinterpret_cast<Elements<T, kCount>*>(to) = elements;
}

using Sizes = std::initializer_list<int>;

template <typename T, typename F>
absl::Status WithAccessOf(Sizes sizes, const F& f) {
  constexpr int kCount = kAccessBytes / sizeof(T);
  for (const int size : sizes) {
    if (size % kCount != 0) return f(T(), std::integral_constant<int, 1>());
  }
  return f(T(), std::integral_constant<int, kCount>());
}

// Calls f(element, elements of an access). An access has 16 bytes if all
// `sizes` (widths, strides, offsets) are multiples of that, otherwise one
// element.
template <typename F>
absl::Status WithAccess(ElementType type, Sizes sizes, const F& f) {
  return type == ElementType::kFloat32 ? WithAccessOf<float>(sizes, f)
                                       : WithAccessOf<BFloat16>(sizes, f);
}

// Where a thread's accesses along a row begin, and how far apart they are.
template <int kCount>
__device__ int FirstColumn() {
  return static_cast<int>(blockIdx.y * kThreads + threadIdx.x) * kCount;
}
template <int kCount>
__device__ int ColumnStep() {
  return static_cast<int>(gridDim.y) * kThreads * kCount;
}

template <typename T, int kCount>
__device__ void CopyRow(const T* from, T* to, int width) {
  for (int c = FirstColumn<kCount>(); c < width; c += ColumnStep<kCount>()) {
    Store(to + c, Load<T, kCount>(from + c));
  }
}

template <typename T, int kCount>
__global__ void EmbedKernel(EmbedParams p, const T* table, int width) {
  // The order matters. A forward pass begins here, and every kernel of it may
  // read what was written before the pass without a wait.
  WaitForPrevious();
  StartNext();
  const int64_t row = blockIdx.x;
  if (row >= *p.rows.count) return;
  CopyRow<T, kCount>(table + static_cast<int64_t>(p.token[row]) * width,
                     As<T>(p.out) + row * width, width);
}

template <typename T, int kCount>
__global__ void GatherRowsKernel(GatherRowsParams p) {
  StartNext();
  WaitForPrevious();
  const int64_t row = blockIdx.x;
  if (row >= *p.rows.count) return;
  CopyRow<T, kCount>(As<T>(p.x) + static_cast<int64_t>(p.index[row]) * p.width,
                     As<T>(p.out) + row * p.width, p.width);
}

template <typename T, int kCount>
__global__ void StoreHiddenKernel(const __grid_constant__ StoreHiddenParams p) {
  StartNext();
  WaitForPrevious();
  const int i = blockIdx.x;
  if (i >= p.path.first[p.batch.max_requests]) return;
  const int64_t row = p.path.row[i];
  const int b = p.batch.request[row];
  const int place = i - p.path.first[b];
  const int length = p.path.first[b + 1] - p.path.first[b];
  if (place + p.most < length) return;
  const int position = p.batch.committed[b] + place;
  const int64_t kept =
      static_cast<int64_t>(p.batch.slot[b]) * p.ring + position % p.ring;
  CopyRow<T, kCount>(As<T>(p.hidden) + row * p.width,
                     As<T>(p.kept) + kept * p.width, p.width);
}

// A row to normalise.
template <typename T>
struct NormRow {
  bool is_used;  // If not, x may be read, but nothing is written.
  const T* x;    // [width]
  T* out;        // [width]
};

// Called by the whole block. A thread keeps up to kKept accesses of x; wider
// rows are read twice. `row_of` waits for the previous kernels and returns the
// row; `loaded` is called when the row has been read.
template <typename T, int kCount, typename F, typename G>
__device__ void Normalize(const float* weights, int width, float epsilon,
                          const F& row_of, const G& loaded) {
  constexpr int kKept = 4;
  constexpr int kStep = kThreads * kCount;
  __shared__ float shared[kThreads / 32];
  const int first = static_cast<int>(threadIdx.x) * kCount;
  Elements<float, kCount> weight[kKept];  // No kernel writes it.
#pragma unroll
  for (int i = 0; i < kKept; ++i) {
    const int c = first + i * kStep;
    if (c < width) weight[i] = Load<float, kCount>(weights + c);
  }
  const NormRow<T> row = row_of();
  Elements<T, kCount> kept[kKept];
#pragma unroll
  for (int i = 0; i < kKept; ++i) {
    const int c = first + i * kStep;
    if (c < width) kept[i] = Load<T, kCount>(row.x + c);
  }
  if (!row.is_used) return;
  float sum = 0;
  const auto add = [&](const Elements<T, kCount>& elements) {
#pragma unroll
    for (const T e : elements.at) sum += ToFloat(e) * ToFloat(e);
  };
#pragma unroll
  for (int i = 0; i < kKept; ++i) {
    if (first + i * kStep < width) add(kept[i]);
  }
  for (int c = first + kKept * kStep; c < width; c += kStep) {
    add(Load<T, kCount>(row.x + c));
  }
  sum = BlockSum<kThreads>(sum, shared);
  loaded();
  const float scale = rsqrtf(sum / static_cast<float>(width) + epsilon);

  const auto write = [&](int c, Elements<T, kCount> elements,
                         const Elements<float, kCount>& of_columns) {
#pragma unroll
    for (int e = 0; e < kCount; ++e) {
      elements.at[e] =
          FromFloat<T>(ToFloat(elements.at[e]) * scale * of_columns.at[e]);
    }
    Store(row.out + c, elements);
  };
#pragma unroll
  for (int i = 0; i < kKept; ++i) {
    if (first + i * kStep < width) {
      write(first + i * kStep, kept[i], weight[i]);
    }
  }
  for (int c = first + kKept * kStep; c < width; c += kStep) {
    write(c, Load<T, kCount>(row.x + c), Load<float, kCount>(weights + c));
  }
}

template <typename T, int kCount>
__global__ void __launch_bounds__(kThreads) RmsNormKernel(RmsNormParams p) {
  StartNext();
  const auto row_of = [&] {
    WaitForPrevious();
    const int64_t row = blockIdx.x;
    // Every row within the capacity may be read.
    return NormRow<T>{.is_used = row < *p.rows.count,
                      .x = As<T>(p.x) + row * p.width,
                      .out = As<T>(p.out) + row * p.out_stride + p.out_column};
  };
  Normalize<T, kCount>(p.weight, p.width, p.epsilon, row_of, [] {});
}

// The first kernel of a drafter's forward pass. Like EmbedKernel, it waits
// before it lets the next one start. Blocks with y = 0 process the embedding of
// a row, those with y = 1 its hidden vector.
template <typename T, int kCount>
__global__ void __launch_bounds__(kThreads)
    DraftInputsKernel(DraftInputsParams p, const T* table) {
  const bool is_hidden = blockIdx.y == 1;
  const auto row_of = [&] {
    WaitForPrevious();
    const int64_t row = blockIdx.x;
    const bool is_used = row < *p.rows.count;
    const int32_t* index = is_hidden ? p.hidden_row : p.token;
    const int64_t from = is_used ? index[row] : 0;
    return NormRow<T>{
        .is_used = is_used,
        .x = (is_hidden ? As<T>(p.hidden) : table) + from * p.width,
        .out = As<T>(p.out) + (2 * row + blockIdx.y) * p.width};
  };
  Normalize<T, kCount>(is_hidden ? p.hidden_norm : p.embedding_norm, p.width,
                       p.epsilon, row_of, [] { StartNext(); });
}

template <typename T, int kCount>
__global__ void SiluMulKernel(SiluMulParams p) {
  StartNext();
  WaitForPrevious();
  const int64_t row = blockIdx.x;
  const int count = *p.rows.count;
  const T* gate = As<T>(p.gate_up) + row * 2 * p.width;
  T* out = As<T>(p.out) + row * p.width;
  for (int c = FirstColumn<kCount>(); c < p.width; c += ColumnStep<kCount>()) {
    auto elements = Load<T, kCount>(gate + c);
    const auto up = Load<T, kCount>(gate + p.width + c);
    if (row >= count) return;
#pragma unroll
    for (int e = 0; e < kCount; ++e) {
      elements.at[e] =
          FromFloat<T>(Silu(ToFloat(elements.at[e])) * ToFloat(up.at[e]));
    }
    Store(out + c, elements);
  }
}

// Enough blocks for one access in every thread.
LaunchShape ShapeOf(int rows, int width, int access) {
  const int step = kThreads * access;
  return {.grid = dim3(rows, (width + step - 1) / step),
          .block = dim3(kThreads)};
}

}  // namespace

absl::Status Embed(const EmbedParams& params, const void* table, int width,
                   const Launch& on) {
  return WithAccess(on.type, {width}, [&](auto element, auto access) {
    using T = decltype(element);
    return LaunchDependent("Embed", EmbedKernel<T, access()>,
                           ShapeOf(params.rows.max, width, access()), on,
                           params, static_cast<const T*>(table), width);
  });
}

absl::Status RmsNorm(const RmsNormParams& params, const Launch& on) {
  return WithAccess(
      on.type, {params.width, params.out_stride, params.out_column},
      [&](auto element, auto access) {
        return LaunchDependent(
            "RmsNorm", RmsNormKernel<decltype(element), access()>,
            {.grid = dim3(params.rows.max), .block = dim3(kThreads)}, on,
            params);
      });
}

absl::Status DraftInputs(const DraftInputsParams& params, const void* table,
                         const Launch& on) {
  return WithAccess(on.type, {params.width}, [&](auto element, auto access) {
    using T = decltype(element);
    return LaunchDependent(
        "DraftInputs", DraftInputsKernel<T, access()>,
        {.grid = dim3(params.rows.max, 2), .block = dim3(kThreads)}, on, params,
        static_cast<const T*>(table));
  });
}

absl::Status SiluMul(const SiluMulParams& params, const Launch& on) {
  return WithAccess(on.type, {params.width}, [&](auto element, auto access) {
    return LaunchDependent(
        "SiluMul", SiluMulKernel<decltype(element), access()>,
        ShapeOf(params.rows.max, params.width, access()), on, params);
  });
}

absl::Status GatherRows(const GatherRowsParams& params, const Launch& on) {
  return WithAccess(on.type, {params.width}, [&](auto element, auto access) {
    return LaunchDependent(
        "GatherRows", GatherRowsKernel<decltype(element), access()>,
        ShapeOf(params.rows.max, params.width, access()), on, params);
  });
}

absl::Status StoreHidden(const StoreHiddenParams& params, const Launch& on) {
  return WithAccess(on.type, {params.width}, [&](auto element, auto access) {
    return LaunchDependent(
        "StoreHidden", StoreHiddenKernel<decltype(element), access()>,
        ShapeOf(params.max_path_rows, params.width, access()), on, params);
  });
}

}  // namespace bole::cuda
