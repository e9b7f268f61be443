// Two solvers of (I + G) U = R, G strictly lower triangular (Eq. 5), for one
// head: exact in exact arithmetic, different in how errors grow.
#ifndef BOLE_KERNELS_REFERENCE_SOLVE_UNIT_LOWER_H_
#define BOLE_KERNELS_REFERENCE_SOLVE_UNIT_LOWER_H_

#include <cstddef>
#include <vector>

namespace bole::reference {

struct UnitLowerSystem {
  int num_rows;          // T
  int width;             // Columns of U and R.
  const float* minus_g;  // [T, T], row i at i * g_row; zero from the diagonal
  size_t g_row;          // on in every row's first T elements.
  float* u;              // [T, width] in: R. out: U.
};

// Forward substitution over blocks of 16 rows. A block's diagonal part is
// applied as U = Y + (X - I) Y with X its inverse, formed by substitution: the
// identity part is exact.
// COST: T^2 / 2 * width multiply-adds. `scratch` is resized as needed.
void SolveByBlocks(const UnitLowerSystem& system, std::vector<float>& scratch);

// Eq. 6: the sum of (-G)^m R for m <= max_depth, where G^(max_depth + 1) = 0.
// Terms of alternating sign grow like ||G||^m before they cancel: correlated
// keys on deep trees cost precision.
// COST: max_depth * T^2 * width multiply-adds.
void SolveByNeumann(const UnitLowerSystem& system, int max_depth,
                    std::vector<float>& scratch);

}  // namespace bole::reference

#endif  // BOLE_KERNELS_REFERENCE_SOLVE_UNIT_LOWER_H_
