#include "kernels/reference/solve_unit_lower.h"

#include <algorithm>
#include <utility>

#include "kernels/reference/vector_ops.h"

namespace bole::reference {
namespace {

constexpr int kBlock = 16;

// strict [n, n] = (I + G)^-1 - I of the diagonal block that starts at row
// `first`: with N for it, N = -G - G N, row by row.
void InvertBlock(const UnitLowerSystem& s, int first, int n, float* strict) {
  for (int i = 0; i < n; ++i) {
    const float* g = s.minus_g + (first + i) * s.g_row + first;
    float* row = strict + static_cast<size_t>(i) * n;
    std::copy_n(g, n, row);
    for (int j = 0; j < i; ++j) {
      // Row j ends before its diagonal.
      Axpy(g[j], strict + static_cast<size_t>(j) * n, row, j);
    }
  }
}

}  // namespace

void SolveByBlocks(const UnitLowerSystem& s, std::vector<float>& scratch) {
  const size_t width = s.width;
  scratch.resize(kBlock * (kBlock + width));
  float* strict = scratch.data();
  float* y = strict + kBlock * kBlock;
  for (int first = 0; first < s.num_rows; first += kBlock) {
    const int n = std::min(kBlock, s.num_rows - first);
    float* u = s.u + first * width;
    AddProduct({.rows = n,
                .columns = s.width,
                .depth = first,
                .a = s.minus_g + first * s.g_row,
                .a_row = s.g_row,
                .a_depth = 1,
                .b = s.u,
                .b_row = width,
                .c = u,
                .c_row = width});
    InvertBlock(s, first, n, strict);
    std::copy_n(u, n * width, y);
    AddProduct({.rows = n,
                .columns = s.width,
                .depth = n,
                .a = strict,
                .a_row = static_cast<size_t>(n),
                .a_depth = 1,
                .b = y,
                .b_row = width,
                .c = u,
                .c_row = width});
  }
}

void SolveByNeumann(const UnitLowerSystem& s, int max_depth,
                    std::vector<float>& scratch) {
  const size_t width = s.width;
  const size_t size = s.num_rows * width;
  scratch.resize(2 * size);
  float* term = scratch.data();
  float* next = term + size;
  std::copy_n(s.u, size, term);
  for (int m = 0; m < max_depth; ++m) {
    std::fill_n(next, size, 0.0f);
    AddProduct({.rows = s.num_rows,
                .columns = s.width,
                .depth = s.num_rows,
                .a = s.minus_g,
                .a_row = s.g_row,
                .a_depth = 1,
                .b = term,
                .b_row = width,
                .c = next,
                .c_row = width});
    for (size_t i = 0; i < size; ++i) s.u[i] += next[i];
    std::swap(term, next);
  }
}

}  // namespace bole::reference
