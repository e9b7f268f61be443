// Weights as the reference backend packs them, beside the values they came
// from.
#ifndef BOLE_TESTS_KERNELS_REFERENCE_HOST_MATRIX_H_
#define BOLE_TESTS_KERNELS_REFERENCE_HOST_MATRIX_H_

#include <cstddef>
#include <memory>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "kernels/reference/packed_matrix.h"
#include "tests/testing/matrices.h"

namespace bole::testing {

struct HostMatrix {
  HostMatrix(int num_rows, int num_columns, std::vector<float> row_major)
      : rows(num_rows),
        columns(num_columns),
        values(std::move(row_major)),
        packed(reference::PackedMatrix::Create(rows, columns)) {
    packed->SetRows(0, values);
  }

  std::span<const float> row(size_t i) const {
    return std::span(values).subspan(i * columns, columns);
  }

  int rows;
  int columns;
  std::vector<float> values;  // [rows, columns]
  std::unique_ptr<reference::PackedMatrix> packed;
};

inline HostMatrix RandomMatrix(std::mt19937& rng, int rows, int columns,
                               float deviation = 1) {
  return {rows, columns,
          NormalVector(rng, static_cast<size_t>(rows) * columns, deviation)};
}

}  // namespace bole::testing

#endif  // BOLE_TESTS_KERNELS_REFERENCE_HOST_MATRIX_H_
