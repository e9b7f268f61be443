#include "kernels/cuda/host_copies.h"

#include <cstddef>
#include <vector>

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
  if (copies.empty()) return absl::OkStatus();
  std::vector<void*> to;
  std::vector<const void*> from;
  std::vector<size_t> bytes;
  to.reserve(copies.size());
  from.reserve(copies.size());
  bytes.reserve(copies.size());
  for (const HostCopy& copy : copies) {
    to.push_back(to_host ? copy.host : copy.device);
    from.push_back(to_host ? copy.device : copy.host);
    bytes.push_back(copy.bytes);
  }
  cudaMemcpyAttributes attributes{};
  attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  attributes.flags = cudaMemcpyFlagPreferOverlapWithCompute;
  size_t first = 0;  // The attributes apply from this copy on.
  return ToStatus(
      cudaMemcpyBatchAsync(to.data(), from.data(), bytes.data(), copies.size(),
                           &attributes, &first, /*numAttrs=*/1, stream_),
      to_host ? "copies to the host" : "copies from the host");
}

}  // namespace bole::cuda
