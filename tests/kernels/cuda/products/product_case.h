// What products on the GPU are tested with, and held to.
#ifndef BOLE_TESTS_KERNELS_CUDA_PRODUCTS_PRODUCT_CASE_H_
#define BOLE_TESTS_KERNELS_CUDA_PRODUCTS_PRODUCT_CASE_H_

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tests/kernels/cuda/cuda_test.h"
#include "tests/testing/guarded_buffer.h"
#include "tests/testing/matrices.h"

namespace bole::testing {

struct ProductShape {
  int capacity;  // N
  int count;     // Rows in use; the others are not a number.
  int rows;
  int columns;
};

enum class ProductOut { kElements, kFloats, kAccumulated };

// What products of one matrix differ in.
struct ProductUse {
  int capacity;
  int count;
  ProductOut out;
};

// Capacities at the edges of what kernels take, full and half full, with every
// kind of output.
inline std::vector<ProductUse> ProductUses() {
  std::vector<ProductUse> uses;
  for (const int capacity : {1, 5, 16, 17, 32}) {
    for (const ProductOut out : {ProductOut::kElements, ProductOut::kFloats,
                                 ProductOut::kAccumulated}) {
      uses.push_back({capacity, capacity, out});
      uses.push_back({capacity, capacity / 2, out});
    }
  }
  return uses;
}

// Calls f(shape, out) for each (rows, columns) with some of the uses, and with
// those of more than one row only up to `most_elements` of the matrix; stops
// when a test has failed.
template <typename Shapes, typename F>
void ForShapesAndUses(const Shapes& shapes, int most_elements, const F& f) {
  const std::vector<ProductUse> uses = ProductUses();
  int number = 0;
  for (const auto& [rows, columns] : shapes) {
    // One of the first six, which are of one row, and others.
    size_t i = number++ % EveryNth(6);
    for (; i < uses.size(); i += EveryNth(23)) {
      const auto& [capacity, count, out] = uses[i];
      if (capacity > 1 && rows * columns > most_elements) continue;
      f(ProductShape{capacity, count, rows, columns}, out);
      if (::testing::Test::HasFailure()) return;
    }
  }
}

// Nothing is written from element `first` on.
inline void ExpectSpareRows(const GuardedBuffer<float>& out, size_t first) {
  for (size_t i = first; i < out.size(); ++i) {
    ASSERT_TRUE(std::isnan(out[i])) << "a spare row was written: " << i;
  }
}

// What an element is before it is stored, and by how much it may be off.
struct Expected {
  double value;
  double error;
};

// silu(gate) * up, of sums that are off by `summed`. The slope of silu is at
// most 1.1.
inline Expected ExpectGated(double gate, double up, double summed) {
  const double silu = gate / (1 + std::exp(-gate));
  return {silu * up, summed * (1.1 * std::abs(up) + std::abs(silu))};
}

// `count` rows of `out`, [N, columns], are expected(row, column), and nothing
// is written behind; of wide rows some columns.
template <typename F>
void ExpectRows(const GuardedBuffer<float>& out, int count, int columns,
                double roundoff, const F& expected) {
  const int step = 1 + columns / 400;
  for (int n = 0; n < count; ++n) {
    for (int i = n % step; i < columns; i += step) {
      const Expected want = expected(n, i);
      ASSERT_NEAR(out[static_cast<size_t>(n) * columns + i], want.value,
                  roundoff * std::abs(want.value) + want.error)
          << "row " << n << ", column " << i;
    }
  }
  ExpectSpareRows(out, static_cast<size_t>(count) * columns);
}

// Operands of size 1, the weights rounded to bfloat16; `out` has what is added
// to, or is not a number.
struct ProductCase {
  ProductCase(std::mt19937& rng, const ProductShape& s, ProductOut kind)
      : shape(s),
        kind(kind),
        x(static_cast<size_t>(s.capacity) * s.columns),
        weight(NormalVector(rng, static_cast<size_t>(s.rows) * s.columns)),
        count(1),
        out(static_cast<size_t>(s.capacity) * s.rows) {
    FillNormal(rng, 1, x.span(0, static_cast<size_t>(s.count) * s.columns));
    for (float& w : weight) w = RoundedToBFloat16(w);
    count[0] = s.count;
    if (kind == ProductOut::kAccumulated) {
      FillNormal(rng, 1, out.span(0, num_written()));
    }
  }

  size_t num_written() const {
    return static_cast<size_t>(shape.count) * shape.rows;
  }

  // `out` is `want`, and nothing is written behind. The sums are of size
  // sqrt(columns), with one rounding to what is stored, of `roundoff`, and in
  // float32 one for every product, half a unit each; `more` is what else each
  // product may be off by.
  void ExpectClose(const GuardedBuffer<float>& want, double roundoff,
                   double more = 0) const {
    const double summed = 2.0 * shape.columns * kFloatRoundoff + more;
    const double stored = kind == ProductOut::kFloats ? 0 : roundoff;
    for (size_t i = 0; i < num_written(); ++i) {
      const double bound =
          stored * std::abs(want[i]) + summed * std::sqrt(shape.columns);
      ASSERT_TRUE(std::abs(static_cast<double>(out[i]) - want[i]) <= bound)
          << i << ": " << out[i] << ", expected " << want[i];
    }
    ExpectSpareRows(out, num_written());
  }

  ProductShape shape;
  ProductOut kind;
  GuardedBuffer<float> x;     // [N, columns]
  std::vector<float> weight;  // [rows, columns]
  GuardedBuffer<int32_t> count;
  GuardedBuffer<float> out;  // [N, rows]
};

inline std::ostream& operator<<(std::ostream& to, const ProductCase& c) {
  return to << c.shape.count << " of " << c.shape.capacity << " rows, "
            << c.shape.rows << " by " << c.shape.columns << ", out "
            << static_cast<int>(c.kind);
}

}  // namespace bole::testing

#endif  // BOLE_TESTS_KERNELS_CUDA_PRODUCTS_PRODUCT_CASE_H_
