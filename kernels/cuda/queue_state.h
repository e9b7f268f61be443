// What operators rely on of those that were queued before them.
#ifndef BOLE_KERNELS_CUDA_QUEUE_STATE_H_
#define BOLE_KERNELS_CUDA_QUEUE_STATE_H_

#include "common/check.h"

namespace bole::cuda {

// A kernel may start before the one ahead of it has ended (launch.cuh). Those
// of a pass read early what is kept between passes: topology, states, windows,
// committed keys and values. So what writes that is followed by a barrier
// before any of them is queued: by the first kernel of a pass, which lets none
// start before all ahead of it have ended, by a copy, or where a graph begins
// or ends. A caller that breaks the rule ends the process.
//
// One thread at a time.
class QueueState {
 public:
  // What is queued next starts when all before it has ended.
  void Barrier() { is_settled_ = true; }
  // An operator is queued that writes what is kept, or one that reads it early.
  void WriteKept() { is_settled_ = false; }
  void ReadKept() const { BOLE_CHECK(is_settled_); }

  // Within a capture operators alone are queued.
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
