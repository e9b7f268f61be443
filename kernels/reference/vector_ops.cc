#include "kernels/reference/vector_ops.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reference/vector_ops.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace bole::reference {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Wide = hn::CappedTag<float, 16>;
// The rest of a row is processed one element at a time, with the multiply-add
// of the same instruction set.
using Single = hn::CappedTag<float, 1>;

constexpr int kLanes = static_cast<int>(HWY_MIN(16, HWY_LANES(float)));
// Chains of additions in flight within one dot product.
constexpr int kChains = 4;
// Rows and vectors of one tile of a product: enough chains to hide the latency
// of an addition, few enough for 16 registers.
constexpr int kTileRows = 4;
constexpr int kTileVectors = 2;

HWY_INLINE float SumLanes(hn::Vec<Wide> v) {
  return hn::GetLane(hn::SumOfLanes(Wide(), v));
}

HWY_ATTR float DotRow(const float* a, const float* b, int n) {
  const Wide d;
  hn::Vec<Wide> sum0 = hn::Zero(d);
  hn::Vec<Wide> sum1 = hn::Zero(d);
  hn::Vec<Wide> sum2 = hn::Zero(d);
  hn::Vec<Wide> sum3 = hn::Zero(d);
  int i = 0;
  for (; i + kChains * kLanes <= n; i += kChains * kLanes) {
    const float* x = a + i;
    const float* y = b + i;
    sum0 = hn::MulAdd(hn::LoadU(d, x), hn::LoadU(d, y), sum0);
    x += kLanes, y += kLanes;
    sum1 = hn::MulAdd(hn::LoadU(d, x), hn::LoadU(d, y), sum1);
    x += kLanes, y += kLanes;
    sum2 = hn::MulAdd(hn::LoadU(d, x), hn::LoadU(d, y), sum2);
    x += kLanes, y += kLanes;
    sum3 = hn::MulAdd(hn::LoadU(d, x), hn::LoadU(d, y), sum3);
  }
  for (; i + kLanes <= n; i += kLanes) {
    sum0 = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), sum0);
  }
  float sum = SumLanes(hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3)));
  for (; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

HWY_ATTR void DotEachRow(const float* a, const float* b, int count, int n,
                         float* out) {
  for (int i = 0; i < count; ++i, b += n) out[i] = DotRow(a, b, n);
}

// y = scale * y + alpha * x; with kScale false, y += alpha * x.
template <bool kScale, class D>
HWY_INLINE void UpdateLanes(D d, float scale, float alpha, const float* x,
                            float* y) {
  hn::Vec<D> old = hn::LoadU(d, y);
  if constexpr (kScale) old = hn::Mul(hn::Set(d, scale), old);
  hn::StoreU(hn::MulAdd(hn::Set(d, alpha), hn::LoadU(d, x), old), d, y);
}

template <bool kScale>
HWY_ATTR void UpdateRow(float scale, float alpha, const float* x, float* y,
                        int n) {
  int i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    UpdateLanes<kScale>(Wide(), scale, alpha, x + i, y + i);
  }
  for (; i < n; ++i) {
    UpdateLanes<kScale>(Single(), scale, alpha, x + i, y + i);
  }
}

HWY_ATTR void AxpyRow(float alpha, const float* x, float* y, int n) {
  UpdateRow</*kScale=*/false>(0, alpha, x, y, n);
}

HWY_ATTR void ScaleRow(float alpha, float* x, int n) {
  const Wide d;
  int i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    hn::StoreU(hn::Mul(hn::Set(d, alpha), hn::LoadU(d, x + i)), d, x + i);
  }
  for (; i < n; ++i) x[i] *= alpha;
}

// kRows rows times kVectors vectors of columns, from element (i, j) on.
template <int kRows, int kVectors, class D>
HWY_INLINE void Tile(D d, const ProductSum& p, int i, int j) {
  const float* a = p.a + i * p.a_row;
  const float* b = p.b + j;
  float* c = p.c + i * p.c_row + j;
  const size_t lanes = hn::MaxLanes(d);
  hn::Vec<D> sum[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      sum[r][v] = hn::LoadU(d, c + r * p.c_row + v * lanes);
    }
  }
  for (int k = 0; k < p.depth; ++k, a += p.a_depth, b += p.b_row) {
    hn::Vec<D> column[kVectors];
    for (int v = 0; v < kVectors; ++v) column[v] = hn::LoadU(d, b + v * lanes);
    for (int r = 0; r < kRows; ++r) {
      const hn::Vec<D> value = hn::Set(d, a[r * p.a_row]);
      for (int v = 0; v < kVectors; ++v) {
        sum[r][v] = hn::MulAdd(value, column[v], sum[r][v]);
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      hn::StoreU(sum[r][v], d, c + r * p.c_row + v * lanes);
    }
  }
}

template <int kVectors, class D>
HWY_ATTR void TileColumn(D d, const ProductSum& p, int j) {
  int i = 0;
  for (; i + kTileRows <= p.rows; i += kTileRows) {
    Tile<kTileRows, kVectors>(d, p, i, j);
  }
  for (; i < p.rows; ++i) Tile<1, kVectors>(d, p, i, j);
}

HWY_ATTR void AddTiles(const ProductSum& p) {
  int j = 0;
  for (; j + kTileVectors * kLanes <= p.columns; j += kTileVectors * kLanes) {
    TileColumn<kTileVectors>(Wide(), p, j);
  }
  for (; j + kLanes <= p.columns; j += kLanes) TileColumn<1>(Wide(), p, j);
  for (; j < p.columns; ++j) TileColumn<1>(Single(), p, j);
}

HWY_ATTR void Advance(const StateStep& s, float* state) {
  for (int c = 0; c < s.value_dim; ++c) {
    float* row = state + static_cast<size_t>(c) * s.key_dim;
    const float read = s.decay * DotRow(row, s.k, s.key_dim);
    const float u = s.beta * (s.v[c] - read);
    UpdateRow</*kScale=*/true>(s.decay, u, s.k, row, s.key_dim);
    if (s.q != nullptr) s.out[c] = DotRow(row, s.q, s.key_dim);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace bole::reference
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bole::reference {

HWY_EXPORT(DotRow);
HWY_EXPORT(DotEachRow);
HWY_EXPORT(AxpyRow);
HWY_EXPORT(ScaleRow);
HWY_EXPORT(AddTiles);
HWY_EXPORT(Advance);

float Dot(const float* a, const float* b, int n) {
  return HWY_DYNAMIC_DISPATCH(DotRow)(a, b, n);
}

void DotRows(const float* a, const float* b, int count, int n, float* out) {
  HWY_DYNAMIC_DISPATCH(DotEachRow)(a, b, count, n, out);
}

void Axpy(float alpha, const float* x, float* y, int n) {
  HWY_DYNAMIC_DISPATCH(AxpyRow)(alpha, x, y, n);
}

void Scale(float alpha, float* x, int n) {
  HWY_DYNAMIC_DISPATCH(ScaleRow)(alpha, x, n);
}

void AddProduct(const ProductSum& product) {
  HWY_DYNAMIC_DISPATCH(AddTiles)(product);
}

void AdvanceState(const StateStep& step, float* state) {
  HWY_DYNAMIC_DISPATCH(Advance)(step, state);
}

}  // namespace bole::reference
#endif  // HWY_ONCE
