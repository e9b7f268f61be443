#ifndef BOLE_KERNELS_REFERENCE_ACTIVATIONS_H_
#define BOLE_KERNELS_REFERENCE_ACTIVATIONS_H_

#include <cmath>

#include "kernels/tensor.h"

namespace bole::reference {

// On this backend an activation is a float.
inline float* Floats(Activation* x) { return reinterpret_cast<float*>(x); }
inline const float* Floats(const Activation* x) {
  return reinterpret_cast<const float*>(x);
}

inline float Sigmoid(float x) { return 1 / (1 + std::exp(-x)); }
inline float Silu(float x) { return x * Sigmoid(x); }

}  // namespace bole::reference

#endif  // BOLE_KERNELS_REFERENCE_ACTIVATIONS_H_
