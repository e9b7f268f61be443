// Checks what operators assume about the work that was queued before them.
#ifndef BOLE_KERNELS_CUDA_QUEUE_STATE_H_
#define BOLE_KERNELS_CUDA_QUEUE_STATE_H_

#include "common/check.h"

namespace bole::cuda {

// A kernel may start before the previous one has ended (launch.cuh). The
// kernels of a pass read the data that is kept between passes early: topology,
// states, windows, committed keys and values. So an operator that writes such
// data must be followed by a barrier before any of them is queued. A barrier is
// the first kernel of a pass, which lets no later one start before all earlier
// ones have ended; a copy; or the beginning or end of a graph. If a caller
// breaks the rule, the process ends.
//
// Used by one thread at a time.
class QueueState {
 public:
  // Work that is queued next starts when all earlier work has ended.
  void Barrier() { is_settled_ = true; }
  // An operator is queued that writes kept data, or one that reads it early.
  void WriteKept() { is_settled_ = false; }
  void ReadKept() const { BOLE_CHECK(is_settled_); }

  // Within a capture, only operators may be queued.
  void BeginCapture() {
    is_capturing_ = true;
    Barrier();
  }
  void EndCapture() {
    is_capturing_ = false;
    Barrier();
  }
  void QueueMark() const { BOLE_CHECK(!is_capturing_); }
  void QueueCopy() {
    BOLE_CHECK(!is_capturing_);
    Barrier();
  }

 private:
  bool is_capturing_ = false;
  bool is_settled_ = true;
};

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_QUEUE_STATE_H_
