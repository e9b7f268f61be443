#include "kernels/reference/packed_matrix.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reference/packed_matrix.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace bole::reference {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::CappedTag<float, 16>;
using Vector = hn::Vec<Tag>;

constexpr int kPanel = PackedMatrix::kPanelRows;
constexpr int kLanes = static_cast<int>(HWY_MIN(16, HWY_LANES(float)));
// Two vectors of outputs at a time: with kBlockRows rows their accumulators
// fill the registers of the machine.
constexpr int kGroup = 2 * kLanes;
constexpr int kBlockRows = HWY_TARGET <= HWY_AVX3 ? 12 : 6;
static_assert(kPanel % kGroup == 0);

// kRows rows times kGroups groups of kGroup outputs. `w` points at the first
// group; the next ones follow `group_stride` floats apart.
template <int kRows, int kGroups>
HWY_ATTR void Block(const Product& p, const float* w, size_t group_stride,
                    int first_row, float* sums) {
  const Tag d;
  const int columns = p.weight->columns;
  const float* x = p.x + static_cast<size_t>(first_row) * columns;
  Vector sum[kRows][2 * kGroups];
  HWY_UNROLL(kBlockRows)
  for (int r = 0; r < kRows; ++r) {
    HWY_UNROLL(4)
    for (int v = 0; v < 2 * kGroups; ++v) sum[r][v] = hn::Zero(d);
  }
  for (int c = 0; c < columns; ++c) {
    HWY_UNROLL(2)
    for (int g = 0; g < kGroups; ++g) {
      const float* column = w + g * group_stride + c * kPanel;
      const Vector w0 = hn::Load(d, column);
      const Vector w1 = hn::Load(d, column + kLanes);
      HWY_UNROLL(kBlockRows)
      for (int r = 0; r < kRows; ++r) {
        const Vector value =
            hn::Set(d, x[static_cast<size_t>(r) * columns + c]);
        sum[r][2 * g] = hn::MulAdd(value, w0, sum[r][2 * g]);
        sum[r][2 * g + 1] = hn::MulAdd(value, w1, sum[r][2 * g + 1]);
      }
    }
  }
  HWY_UNROLL(kBlockRows)
  for (int r = 0; r < kRows; ++r) {
    HWY_UNROLL(4)
    for (int v = 0; v < 2 * kGroups; ++v) {
      hn::StoreU(sum[r][v], d, sums + (r * 2 * kGroups + v) * kLanes);
    }
  }
}

// Writes num_outputs sums of one row.
HWY_ATTR void Finish(const Product& p, int row, int first_output,
                     int num_outputs, const float* sums) {
  float* out = p.out + static_cast<size_t>(row) * p.weight->rows + first_output;
  const int count = std::min(num_outputs, p.weight->rows - first_output);
  for (int i = 0; i < count; ++i) {
    out[i] = p.accumulate ? out[i] + sums[i] : sums[i];
  }
}

template <int kRows>
HWY_ATTR void RowBlock(const Product& p, int panel, int first_row) {
  HWY_ALIGN float sums[kRows * kGroup];
  for (int g = 0; g < kPanel; g += kGroup) {
    Block<kRows, 1>(p, p.weight->panel(panel) + g, 0, first_row, sums);
    for (int r = 0; r < kRows; ++r) {
      Finish(p, first_row + r, panel * kPanel + g, kGroup, sums + r * kGroup);
    }
  }
}

template <int kRows>
HWY_ATTR void LastRows(const Product& p, int panel, int first_row) {
  if constexpr (kRows > 0) {
    if (p.num_rows - first_row == kRows) {
      RowBlock<kRows>(p, panel, first_row);
    } else {
      LastRows<kRows - 1>(p, panel, first_row);
    }
  }
}

// One row: two panels at once, four chains of additions in flight.
HWY_ATTR void OneRow(const Product& p, int first_panel, int last_panel) {
  const size_t panel_stride = static_cast<size_t>(kPanel) * p.weight->columns;
  HWY_ALIGN float sums[2 * kGroup];
  int panel = first_panel;
  for (; panel + 1 < last_panel; panel += 2) {
    for (int g = 0; g < kPanel; g += kGroup) {
      Block<1, 2>(p, p.weight->panel(panel) + g, panel_stride, 0, sums);
      Finish(p, 0, panel * kPanel + g, kGroup, sums);
      Finish(p, 0, (panel + 1) * kPanel + g, kGroup, sums + kGroup);
    }
  }
  if (panel < last_panel) RowBlock<1>(p, panel, 0);
}

HWY_ATTR void AllRows(const Product& p, int first_panel, int last_panel) {
  for (int panel = first_panel; panel < last_panel; ++panel) {
    int row = 0;
    for (; row + kBlockRows <= p.num_rows; row += kBlockRows) {
      RowBlock<kBlockRows>(p, panel, row);
    }
    LastRows<kBlockRows - 1>(p, panel, row);
  }
}

HWY_ATTR void Panels(const Product& p, int first_panel, int last_panel) {
  if (p.num_rows == 1) {
    OneRow(p, first_panel, last_panel);
  } else {
    AllRows(p, first_panel, last_panel);
  }
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  // g++ 12 leaves the upper halves of the registers dirty here, and every SSE
  // instruction of the rest of the program would wait for them.
  _mm256_zeroupper();
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace bole::reference
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bole::reference {

HWY_EXPORT(Panels);

std::unique_ptr<PackedMatrix> PackedMatrix::Create(int num_rows,
                                                   int num_columns) {
  std::unique_ptr<PackedMatrix> matrix(new PackedMatrix(num_rows, num_columns));
  const size_t count = matrix->PanelOffset(matrix->num_panels());
  matrix->data_.reset(
      static_cast<float*>(std::aligned_alloc(64, count * sizeof(float))));
  if (matrix->data_ == nullptr) return nullptr;
  std::fill_n(matrix->data_.get(), count, 0.0f);
  return matrix;
}

void PackedMatrix::SetRows(int first_row, std::span<const float> values) {
  const int count = static_cast<int>(values.size() / columns);
  for (int r = 0; r < count; ++r) {
    const float* row = values.data() + static_cast<size_t>(r) * columns;
    for (int c = 0; c < columns; ++c) {
      data_.get()[Offset(first_row + r, c)] = row[c];
    }
  }
}

void PackedMatrix::CopyRow(int row, float* out) const {
  for (int c = 0; c < columns; ++c) out[c] = data_.get()[Offset(row, c)];
}

void Multiply(const Product& product, ThreadPool& pool) {
  if (product.num_rows == 0) return;
  // A few tasks per thread, so that one that is held up does not hold up all.
  const int num_panels = product.weight->num_panels();
  const int num_tasks = std::min(num_panels, 4 * pool.num_threads());
  pool.ParallelFor(num_tasks, [&](int task) {
    HWY_DYNAMIC_DISPATCH(Panels)
    (product, num_panels * task / num_tasks,
     num_panels * (task + 1) / num_tasks);
  });
}

}  // namespace bole::reference
#endif  // HWY_ONCE
