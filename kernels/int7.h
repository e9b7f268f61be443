// Weights as 7-bit integers with one scale for each row, for the host and the
// device: w ~ scale * q. Only exact operations and single roundings, so that
// both compute the same numbers.
#ifndef BOLE_KERNELS_INT7_H_
#define BOLE_KERNELS_INT7_H_

#include <cmath>

#if defined(__CUDACC__)
#define BOLE_HOST_DEVICE __host__ __device__
#else
#define BOLE_HOST_DEVICE
#endif

namespace bole {

// |q| <= kInt7Max. In a byte as q + kInt7Zero, which leaves its highest bit 0:
// such a byte behind 0x43 is the bfloat16 128 + byte.
inline constexpr int kInt7Max = 63;
inline constexpr int kInt7Zero = 64;

// Rows whose largest element is smaller become zeros: their scales would have
// less than float32's precision.
inline constexpr float kMinInt7Row = 1e-36f;

// The scale of a row whose largest magnitude is `largest`; finite if that is.
BOLE_HOST_DEVICE inline float Int7Scale(float largest) {
  return largest < kMinInt7Row ? 0 : largest / kInt7Max;
}

// q: the nearest to w / scale, ties to even; 0 if the scale is. So scale * q is
// off by scale / 2 at most, but for roundings. REQUIRES: a finite w of the row.
BOLE_HOST_DEVICE inline int QuantizedInt7(float w, float scale) {
  if (scale == 0) return 0;
  return static_cast<int>(rintf(w / scale));
}

}  // namespace bole

#undef BOLE_HOST_DEVICE

#endif  // BOLE_KERNELS_INT7_H_
