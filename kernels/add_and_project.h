#ifndef BOLE_KERNELS_ADD_AND_PROJECT_H_
#define BOLE_KERNELS_ADD_AND_PROJECT_H_

#include <optional>
#include <variant>

#include "kernels/dense.h"

namespace bole {

// A layer's output becomes part of the residual stream, and the norm of the
// stream is taken: MatMul or Moe, and RmsNorm. Of several ranks each has a part
// of the output: it goes to `partial`, and AllReduceAddNorm takes the place of
// the norm.
struct AddAndNormParams {
  std::variant<MatMulParams, MoeParams> add;  // Accumulates into norm.x.
  RmsNormParams norm;                         // To whole rows.
  Activation* partial;  // [N, H]; not used by one rank, and may be null there.
};

// Two products of the same rows with a norm between them: AddAndNorm, MatMul
// and, if there is a gate, SiluMul, each of what the one before has written.
// What lies between need not be written: out of norm, and out of project if
// there is a gate, hold anything afterwards. The count of the rows may be read
// while the operator before still runs, which must not write it.
struct AddAndProjectParams {
  MatMulParams add;  // To the residual stream.
  RmsNormParams norm;
  MatMulParams project;
  std::optional<SiluMulParams> gate;
  Activation* partial = nullptr;  // As AddAndNormParams.
};

}  // namespace bole

#endif  // BOLE_KERNELS_ADD_AND_PROJECT_H_
