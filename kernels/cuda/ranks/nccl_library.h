// NCCL, loaded when it is first needed.
#ifndef BOLE_KERNELS_CUDA_RANKS_NCCL_LIBRARY_H_
#define BOLE_KERNELS_CUDA_RANKS_NCCL_LIBRARY_H_

#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cuda_runtime.h"
#include "kernels/communicator.h"
#include "nccl.h"

namespace bole::cuda {

// The functions that are used. NCCL is not linked, so that a model on one GPU
// runs without it.
struct Nccl {
  decltype(&ncclGetErrorString) GetErrorString;
  decltype(&ncclGetUniqueId) GetUniqueId;
  decltype(&ncclCommInitRank) CommInitRank;
  decltype(&ncclCommAbort) CommAbort;
  decltype(&ncclCommGetAsyncError) CommGetAsyncError;
  decltype(&ncclAllGather) AllGather;
  decltype(&ncclBroadcast) Broadcast;
  decltype(&ncclGroupStart) GroupStart;
  decltype(&ncclGroupEnd) GroupEnd;

  // One instance serves the whole process, which never unloads it. UNAVAILABLE,
  // with the loader's message, if NCCL is not installed. Turns NVLink multicast
  // (NCCL_NVLS_ENABLE) off unless the environment says otherwise: with it, sums
  // would differ from run to run.
  static absl::StatusOr<const Nccl*> Load();

  absl::Status ToStatus(ncclResult_t result, std::string_view what) const;
};

struct AbortComm {
  const Nccl* nccl;
  void operator()(ncclComm* comm) const { nccl->CommAbort(comm); }
};
using NcclComm = std::unique_ptr<ncclComm, AbortComm>;

// All ranks call it together, each bound to its GPU.
absl::StatusOr<NcclComm> MakeNcclComm(const Nccl& nccl, Communicator& ranks);

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_RANKS_NCCL_LIBRARY_H_
