// Floats in the place of activations, which is what they are on the reference
// backend.
#ifndef BOLE_TESTS_TESTING_ACTIVATIONS_H_
#define BOLE_TESTS_TESTING_ACTIVATIONS_H_

#include "kernels/tensor.h"

namespace bole::testing {

inline Activation* AsActivations(float* x) {
  return reinterpret_cast<Activation*>(x);
}
inline const Activation* AsActivations(const float* x) {
  return reinterpret_cast<const Activation*>(x);
}

}  // namespace bole::testing

#endif  // BOLE_TESTS_TESTING_ACTIVATIONS_H_
