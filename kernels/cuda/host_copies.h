// Copies between the GPU and pinned memory, beside the operators.
#ifndef BOLE_KERNELS_CUDA_HOST_COPIES_H_
#define BOLE_KERNELS_CUDA_HOST_COPIES_H_

#include <memory>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cuda_runtime_api.h"
#include "kernels/device.h"

namespace bole::cuda {

// Device::CopyToHost() and the functions after it. The copies have a stream of
// their own, which only events order with that of the operators, so that graphs
// are captured and replayed as without it.
class HostCopies {
 public:
  // On the device of the calling thread.
  static absl::StatusOr<std::unique_ptr<HostCopies>> Create();
  ~HostCopies();  // Waits for what is queued.

  HostCopies(const HostCopies&) = delete;
  HostCopies& operator=(const HostCopies&) = delete;

  // The copies begin when what is queued on `operators` so far has ended, and
  // run in no order among themselves. The call is one of the driver's, however
  // many copies there are. REQUIRES: none writes what another reads or writes.
  absl::Status ToHost(std::span<const HostCopy> copies, cudaStream_t operators);
  absl::Status FromHost(std::span<const HostCopy> copies,
                        cudaStream_t operators);
  // What is queued on `operators` from now on waits for all copies so far.
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
