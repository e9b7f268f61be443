#ifndef BOLE_KERNELS_ADD_AND_PROJECT_H_
#define BOLE_KERNELS_ADD_AND_PROJECT_H_

#include <optional>

#include "kernels/dense.h"

namespace bole {

// Two products of the same rows with a norm between them: MatMul, RmsNorm,
// MatMul and, if there is a gate, SiluMul, each of what the one before has
// written. What lies between need not be written: out of norm, and out of
// project if there is a gate, hold anything afterwards. The count of the rows
// may be read while the operator before still runs, which must not write it.
struct AddAndProjectParams {
  MatMulParams add;  // To the residual stream.
  RmsNormParams norm;
  MatMulParams project;
  std::optional<SiluMulParams> gate;
};

}  // namespace bole

#endif  // BOLE_KERNELS_ADD_AND_PROJECT_H_
