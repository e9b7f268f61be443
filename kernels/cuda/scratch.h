// Device memory that an operator uses within one call.
#ifndef BOLE_KERNELS_CUDA_SCRATCH_H_
#define BOLE_KERNELS_CUDA_SCRATCH_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/cuda/operators.h"

namespace bole::cuda {

// Keeps what it allocates for its own lifetime. A launch that is captured can
// allocate nothing: before capture, ask once for the largest size. Memory that
// became too small stays, because graphs captured before still write to it.
//
// One thread at a time, and one stream: the next call writes over it.
class Scratch {
 public:
  // At least `bytes`, with unspecified content. FAILED_PRECONDITION if memory
  // would have to be allocated within a capture, RESOURCE_EXHAUSTED without
  // memory.
  absl::StatusOr<void*> Get(size_t bytes, const Launch& on);

 private:
  struct Free {
    void operator()(void* memory) const;
  };

  std::vector<std::unique_ptr<void, Free>> memory_;  // The last one is largest.
  size_t bytes_ = 0;                                 // Of the last one.
};

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_SCRATCH_H_
