// Inverts a unit lower triangular matrix of 64 rows with a block of 128
// threads, in float32: diagonal blocks of 16 rows by substitution, then the
// blocks below them by products, first those that pair blocks of 16 rows.
#ifndef BOLE_KERNELS_CUDA_PREFILL_UNIT_LOWER_INVERSE_CUH_
#define BOLE_KERNELS_CUDA_PREFILL_UNIT_LOWER_INVERSE_CUH_

namespace bole::cuda {

inline constexpr int kInverseRows = 64;
// The stride of rows in floats. Rows can be read as vectors, and the same
// column of 8 rows covers all banks.
inline constexpr int kInverseRow = 68;

// Computes column `thread % 16` of the inverse of diagonal block thread / 16.
// Elements above the diagonal of the block become zero.
__device__ inline void InvertDiagonalBlock(const float* minus_g, float* inverse,
                                           int thread) {
  constexpr int kBlock = 16;
  const int block = thread / kBlock;
  const int column = thread % kBlock;
  const int corner = block * kBlock * kInverseRow + block * kBlock;
  float x[kBlock];
#pragma unroll
  for (int i = 0; i < kBlock; ++i) {
    const float* row = minus_g + corner + i * kInverseRow;
    // Two sums halve the latency.
    float even = i == column ? 1.0f : 0.0f;
    float odd = 0;
#pragma unroll
    for (int j = 0; j < i; j += 4) {
      const float4 g = *reinterpret_cast<const float4*>(row + j);
      even = fmaf(g.x, x[j], even);
      if (j + 1 < i) odd = fmaf(g.y, x[j + 1], odd);
      if (j + 2 < i) even = fmaf(g.z, x[j + 2], even);
      if (j + 3 < i) odd = fmaf(g.w, x[j + 3], odd);
    }
    x[i] = even + odd;
    inverse[corner + i * kInverseRow + column] = x[i];
  }
}

// Computes rows first_row .. first_row + kRows - 1 and columns first_column ..
// first_column + 3 of out = a b, all with rows of kInverseRow floats.
template <int kDepth, int kRows>
__device__ void MultiplyBlock(const float* a, const float* b, float* out,
                              int first_row, int first_column) {
  float sum[kRows][4] = {};
#pragma unroll
  for (int k = 0; k < kDepth; k += 4) {
    float4 left[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      left[r] = *reinterpret_cast<const float4*>(
          a + (first_row + r) * kInverseRow + k);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float4 right = *reinterpret_cast<const float4*>(
          b + (k + i) * kInverseRow + first_column);
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        const float x = i == 0   ? left[r].x
                        : i == 1 ? left[r].y
                        : i == 2 ? left[r].z
                                 : left[r].w;
        sum[r][0] = fmaf(x, right.x, sum[r][0]);
        sum[r][1] = fmaf(x, right.y, sum[r][1]);
        sum[r][2] = fmaf(x, right.z, sum[r][2]);
        sum[r][3] = fmaf(x, right.w, sum[r][3]);
      }
    }
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    *reinterpret_cast<float4*>(out + (first_row + r) * kInverseRow +
                               first_column) =
        make_float4(sum[r][0], sum[r][1], sum[r][2], sum[r][3]);
  }
}

// inverse = (I - minus_g)^-1 on and below the diagonal blocks; what is above
// them is unspecified. minus_g is strictly lower triangular, with explicit
// zeros in its diagonal blocks, and is overwritten above them. Both are
// [64, 64] with rows of kInverseRow floats, aligned to 16 bytes. Synchronises
// the block, but not at its end.
__device__ inline void InvertUnitLower(float* minus_g, float* inverse) {
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < kInverseRows) InvertDiagonalBlock(minus_g, inverse, thread);
  __syncthreads();

  // X10 = X11 (-G10) X00, for rows 16 .. 31 and for rows 48 .. 63.
  const int corner = thread / 64 * 32 * (kInverseRow + 1);
  const int row = thread % 64 / 4;
  const int column = thread % 4 * 4;
  constexpr int kBelow = 16 * kInverseRow;
  constexpr int kDiagonal = 16 * (kInverseRow + 1);
  float* product = minus_g + corner + 16;  // Above the diagonal.
  MultiplyBlock<16, 1>(minus_g + corner + kBelow, inverse + corner, product,
                       row, column);
  __syncthreads();
  MultiplyBlock<16, 1>(inverse + corner + kDiagonal, product,
                       inverse + corner + kBelow, row, column);
  // These are read as part of a block of 32 rows.
  *reinterpret_cast<float4*>(inverse + corner + 16 + row * kInverseRow +
                             column) = make_float4(0, 0, 0, 0);
  __syncthreads();

  // The same for rows 32 .. 63.
  const int pair = thread / 8 * 2;
  const int quad = thread % 8 * 4;
  constexpr int kLowerHalf = 32 * kInverseRow;
  float* half_product = minus_g + 32;
  MultiplyBlock<32, 2>(minus_g + kLowerHalf, inverse, half_product, pair, quad);
  __syncthreads();
  MultiplyBlock<32, 2>(inverse + kLowerHalf + 32, half_product,
                       inverse + kLowerHalf, pair, quad);
}

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_PREFILL_UNIT_LOWER_INVERSE_CUH_
