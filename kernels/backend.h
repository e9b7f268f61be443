#ifndef BOLE_KERNELS_BACKEND_H_
#define BOLE_KERNELS_BACKEND_H_

#include <cstddef>
#include <memory>

#include "absl/status/status.h"
#include "kernels/device.h"
#include "kernels/operator_set.h"
#include "kernels/weight_store.h"

namespace bole {

class ScratchMeter;  // kernels/scratch_meter.h

// A machine: its memory, the weights stored in it, and the operators that run
// on it. Code that needs only one of the three takes that base class.
//
// Scratch is memory that operators use within one call. It grows when an
// operator needs more than there is, unless it was reserved.
class Backend : public OperatorSet, public WeightStore, public Device {
 public:
  // A stand-in for the operators of this backend that only records how much
  // scratch they would need. The backend must outlive it. Null if operators
  // need no scratch.
  virtual std::unique_ptr<ScratchMeter> MakeScratchMeter() const = 0;
  // Allocates the scratch once and for all: from then on an operator that needs
  // more fails with FAILED_PRECONDITION. After several calls the largest size
  // applies. RESOURCE_EXHAUSTED: there is not enough memory.
  virtual absl::Status ReserveScratch(size_t bytes) = 0;
};

}  // namespace bole

#endif  // BOLE_KERNELS_BACKEND_H_
