// Chooses the kernel that verifies the trees of a problem.
#ifndef BOLE_KERNELS_CUDA_VERIFY_CHOOSE_VERIFY_H_
#define BOLE_KERNELS_CUDA_VERIFY_CHOOSE_VERIFY_H_

#include "kernels/cuda/operators.h"
#include "kernels/gdn.h"

namespace bole::cuda {

// Each has a header gdn_verify_*.h, except the plain versions.
enum class VerifyWay {
  kTwoStage,  // The finite series.
  kAlone,     // Few heads, trees of 33 to 64 nodes.
  kFew,       // Few heads, trees of up to 64 nodes.
  kBatched,   // Many heads, trees of up to 64 nodes.
  kPaths,     // Many heads, trees of up to 128 nodes with short paths.
  kLong,      // Many heads, trees of up to 128 nodes.
  kFused,     // Whatever else has heads of 128 dimensions.
  kPlain,     // The closed form in float32.
  kWalk,      // Node by node, with a snapshot of every state.
  kSerial,    // Node by node.
};

// Returns the fastest of those that support the problem. The choice depends on
// the shape, the solver and the kind of GPU only. Nothing is read from the
// device, so tests can call this without one.
VerifyWay ChooseVerify(const GdnCoreParams& params, const Launch& on);

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_VERIFY_CHOOSE_VERIFY_H_
