// Copies between the GPU and pinned memory that run concurrently with the
// operators.
#ifndef BOLE_KERNELS_CUDA_HOST_COPIES_H_
#define BOLE_KERNELS_CUDA_HOST_COPIES_H_

#include <memory>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cuda_runtime_api.h"
#include "kernels/device.h"

namespace bole::cuda {

// Implements Device::CopyToHost() and the functions after it. The copies have a
// stream of their own. Only events order it with the operators' stream, so that
// capture and replay of graphs are not affected.
class HostCopies {
 public:
  // Creates it for the device of the calling thread.
  static absl::StatusOr<std::unique_ptr<HostCopies>> Create();
  ~HostCopies();  // Waits for what is queued.

  HostCopies(const HostCopies&) = delete;
  HostCopies& operator=(const HostCopies&) = delete;

  // The copies begin when all work queued on `operators` so far has ended, and
  // run in no particular order. They take one call of the driver, however many
  // there are. REQUIRES: none writes what another reads or writes.
  absl::Status ToHost(std::span<const HostCopy> copies, cudaStream_t operators);
  absl::Status FromHost(std::span<const HostCopy> copies,
                        cudaStream_t operators);
  // Work that is queued on `operators` from now on waits for all copies so far.
  absl::Status Await(cudaStream_t operators);

 private:
  HostCopies() = default;
  absl::Status AwaitOperators(cudaStream_t operators);
  absl::Status Queue(std::span<const HostCopy> copies, bool to_host);

  cudaStream_t stream_ = nullptr;
  cudaEvent_t operators_ended_ = nullptr;
  cudaEvent_t copies_ended_ = nullptr;
};

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_HOST_COPIES_H_
