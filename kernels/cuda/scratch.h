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
// what is asked for; memory that became too small stays, because graphs that
// were captured before still write to it.
//
// One thread at a time, and one stream: the next call writes over it.
class Scratch {
 public:
  // From now on there is this much, or as much as there was if that is more.
  // RESOURCE_EXHAUSTED without memory.
  absl::Status Reserve(size_t bytes);

  // At least `bytes`, with unspecified content. FAILED_PRECONDITION if that is
  // more than was reserved, or if memory would have to be allocated within a
  // capture; RESOURCE_EXHAUSTED without memory.
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
