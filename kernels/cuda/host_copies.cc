#include "kernels/cuda/host_copies.h"

#include "common/status_macros.h"
#include "kernels/cuda/check.h"

namespace bole::cuda {

absl::StatusOr<std::unique_ptr<HostCopies>> HostCopies::Create() {
  std::unique_ptr<HostCopies> copies(new HostCopies());
  BOLE_RETURN_IF_ERROR(ToStatus(
      cudaStreamCreateWithFlags(&copies->stream_, cudaStreamNonBlocking),
      "stream of copies"));
  for (cudaEvent_t* event :
       {&copies->operators_ended_, &copies->copies_ended_}) {
    BOLE_RETURN_IF_ERROR(
        ToStatus(cudaEventCreateWithFlags(event, cudaEventDisableTiming),
                 "event of copies"));
  }
  return copies;
}

HostCopies::~HostCopies() {
  if (stream_ != nullptr) {
    cudaStreamSynchronize(stream_);
    cudaStreamDestroy(stream_);
  }
  for (cudaEvent_t event : {operators_ended_, copies_ended_}) {
    if (event != nullptr) cudaEventDestroy(event);
  }
}

absl::Status HostCopies::AwaitOperators(cudaStream_t operators) {
  BOLE_RETURN_IF_ERROR(
      ToStatus(cudaEventRecord(operators_ended_, operators), "mark of rounds"));
  return ToStatus(cudaStreamWaitEvent(stream_, operators_ended_, 0),
                  "wait of copies for rounds");
}

absl::Status HostCopies::Await(cudaStream_t operators) {
  BOLE_RETURN_IF_ERROR(
      ToStatus(cudaEventRecord(copies_ended_, stream_), "mark of copies"));
  return ToStatus(cudaStreamWaitEvent(operators, copies_ended_, 0),
                  "wait of rounds for copies");
}

absl::Status HostCopies::ToHost(std::span<const HostCopy> copies,
                                cudaStream_t operators) {
  BOLE_RETURN_IF_ERROR(AwaitOperators(operators));
  return Queue(copies, /*to_host=*/true);
}

absl::Status HostCopies::FromHost(std::span<const HostCopy> copies,
                                  cudaStream_t operators) {
  BOLE_RETURN_IF_ERROR(AwaitOperators(operators));
  return Queue(copies, /*to_host=*/false);
}

absl::Status HostCopies::Queue(std::span<const HostCopy> copies, bool to_host) {
  for (const HostCopy& copy : copies) {
    BOLE_RETURN_IF_ERROR(
        ToStatus(to_host ? cudaMemcpyAsync(copy.host, copy.device, copy.bytes,
                                           cudaMemcpyDeviceToHost, stream_)
                         : cudaMemcpyAsync(copy.device, copy.host, copy.bytes,
                                           cudaMemcpyHostToDevice, stream_),
                 to_host ? "copy to the host" : "copy from the host"));
  }
  return absl::OkStatus();
}

}  // namespace bole::cuda
