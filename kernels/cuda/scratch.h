// Device memory that an operator uses within one call.
#ifndef BOLE_KERNELS_CUDA_SCRATCH_H_
#define BOLE_KERNELS_CUDA_SCRATCH_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/operators.h"

namespace bole::cuda {

// Keeps what it allocates for its own lifetime. Until Reserve() it grows with
// the requests. Memory that has become too small is kept, because graphs that
// were captured earlier still write to it.
//
// Used by one thread at a time, and on one stream, because the next call
// overwrites the memory.
class Scratch {
 public:
  // Fixes the size at `bytes`, or at the current size if that is more.
  // RESOURCE_EXHAUSTED without memory.
  absl::Status Reserve(size_t bytes);

  // Returns at least `bytes` with unspecified content. FAILED_PRECONDITION if
  // that is more than was reserved, or if memory would have to be allocated
  // within a capture; RESOURCE_EXHAUSTED without memory.
  absl::StatusOr<void*> Get(size_t bytes, const Launch& on);

 private:
  absl::Status Grow(size_t bytes);

  struct Free {
    void operator()(void* memory) const;
  };

  std::vector<std::unique_ptr<void, Free>> memory_;  // The last one is largest.
  size_t bytes_ = 0;  // The size of the last one.
  bool is_reserved_ = false;
};

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_SCRATCH_H_
