#include "kernels/cuda/ranks/nccl_library.h"

#include <dlfcn.h>

#include <cstddef>
#include <cstdlib>
#include <span>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace bole::cuda {
namespace {

constexpr char kLibrary[] = "libnccl.so.2";

struct Loaded {
  Nccl functions = {};
  absl::Status status;

  Loaded() {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): once, before NCCL reads it.
    setenv("NCCL_NVLS_ENABLE", "0", /*replace=*/0);
    void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      // NOLINTNEXTLINE(concurrency-mt-unsafe): glibc keeps one per thread.
      const char* why = dlerror();
      status =
          absl::UnavailableError(absl::StrCat("NCCL cannot be loaded: ", why));
      return;
    }
    Find(library, "ncclGetErrorString", functions.GetErrorString);
    Find(library, "ncclGetUniqueId", functions.GetUniqueId);
    Find(library, "ncclCommInitRank", functions.CommInitRank);
    Find(library, "ncclCommAbort", functions.CommAbort);
    Find(library, "ncclCommGetAsyncError", functions.CommGetAsyncError);
    Find(library, "ncclAllGather", functions.AllGather);
    Find(library, "ncclBroadcast", functions.Broadcast);
    Find(library, "ncclGroupStart", functions.GroupStart);
    Find(library, "ncclGroupEnd", functions.GroupEnd);
  }

  template <typename Function>
  void Find(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    if (function != nullptr || !status.ok()) return;
    status = absl::UnavailableError(
        absl::StrCat(kLibrary, " has no function ", name));
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
