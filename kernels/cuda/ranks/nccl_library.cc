#include "kernels/cuda/ranks/nccl_library.h"

#include <cstddef>
#include <cstdlib>
#include <span>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "kernels/cuda/shared_library.h"

namespace bole::cuda {
namespace {

struct Loaded {
  Nccl functions = {};
  absl::Status status;

  Loaded() {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): once, before NCCL reads it.
    setenv("NCCL_NVLS_ENABLE", "0", /*replace=*/0);
    SharedLibrary library("libnccl.so.2", "NCCL");
    library.Find("ncclGetErrorString", functions.GetErrorString);
    library.Find("ncclGetUniqueId", functions.GetUniqueId);
    library.Find("ncclCommInitRank", functions.CommInitRank);
    library.Find("ncclCommAbort", functions.CommAbort);
    library.Find("ncclCommGetAsyncError", functions.CommGetAsyncError);
    library.Find("ncclAllGather", functions.AllGather);
    library.Find("ncclBroadcast", functions.Broadcast);
    library.Find("ncclGroupStart", functions.GroupStart);
    library.Find("ncclGroupEnd", functions.GroupEnd);
    status = library.status();
  }
};

}  // namespace

absl::StatusOr<const Nccl*> Nccl::Load() {
  static const auto* loaded = new Loaded;
  if (!loaded->status.ok()) return loaded->status;
  return &loaded->functions;
}

absl::Status Nccl::ToStatus(ncclResult_t result, std::string_view what) const {
  if (result == ncclSuccess) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat(std::string(what), ": NCCL says ", GetErrorString(result)));
}

absl::StatusOr<NcclComm> MakeNcclComm(const Nccl& nccl, Communicator& ranks) {
  const Rank rank = ranks.rank();
  ncclUniqueId own = {};
  if (rank.index == 0) {
    BOLE_RETURN_IF_ERROR(nccl.ToStatus(nccl.GetUniqueId(&own), "NCCL's id"));
  }
  std::vector<ncclUniqueId> ids(static_cast<size_t>(rank.count));
  BOLE_RETURN_IF_ERROR(ranks.AllGather(std::as_bytes(std::span(&own, 1)),
                                       std::as_writable_bytes(std::span(ids))));
  ncclComm_t comm = nullptr;
  BOLE_RETURN_IF_ERROR(
      nccl.ToStatus(nccl.CommInitRank(&comm, rank.count, ids[0], rank.index),
                    "NCCL's communicator"));
  return NcclComm(comm, AbortComm{&nccl});
}

}  // namespace bole::cuda
