#ifndef BOLE_KERNELS_REFERENCE_PACKED_MATRIX_H_
#define BOLE_KERNELS_REFERENCE_PACKED_MATRIX_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>

#include "common/thread_pool.h"
#include "kernels/tensor.h"

namespace bole::reference {

// Weights [rows, columns] in float32, packed once: panels of kPanelRows matrix
// rows, each panel column by column, so that a product streams through memory.
// The last panel is padded with zeros.
class PackedMatrix : public WeightMatrix {
 public:
  static constexpr int kPanelRows = 32;

  // Returns a matrix of zeros, or null if there is no memory for it.
  static std::unique_ptr<PackedMatrix> Create(int num_rows, int num_columns);

  int num_panels() const { return (rows + kPanelRows - 1) / kPanelRows; }
  const float* panel(int index) const {
    return data_.get() + PanelOffset(index);
  }
  // Fills rows first_row .. from `values` [n, columns], row-major. Threads may
  // fill different rows at once.
  void SetRows(int first_row, std::span<const float> values);
  // Copies matrix row `row` to out [columns].
  void CopyRow(int row, float* out) const;

 private:
  struct FreeDeleter {
    void operator()(float* memory) const { std::free(memory); }
  };

  PackedMatrix(int num_rows, int num_columns)
      : WeightMatrix(num_rows, num_columns) {}

  size_t PanelOffset(int index) const {
    return static_cast<size_t>(index) * kPanelRows * columns;
  }
  size_t Offset(int row, int column) const {
    return PanelOffset(row / kPanelRows) +
           static_cast<size_t>(column) * kPanelRows + row % kPanelRows;
  }

  std::unique_ptr<float, FreeDeleter> data_;
};

// out = x W^T for num_rows rows, or out += x W^T.
//
// Element (i, o) is one chain of fused multiply-adds over the columns in order,
// whatever num_rows, the panel or the thread: a row's bits do not depend on
// the rows beside it.
struct Product {
  const PackedMatrix* weight;
  const float* x;  // [num_rows, weight columns]
  float* out;      // [num_rows, weight rows], not overlapping x.
  int num_rows;
  bool accumulate;
};
void Multiply(const Product& product, ThreadPool& pool);

}  // namespace bole::reference

#endif  // BOLE_KERNELS_REFERENCE_PACKED_MATRIX_H_
