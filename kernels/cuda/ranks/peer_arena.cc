#include "kernels/cuda/ranks/peer_arena.h"

#include <unistd.h>

#include <span>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "cuda_runtime.h"
#include "kernels/cuda/check.h"

namespace bole::cuda {
namespace {

// What a rank tells the others about its memory.
struct Offer {
  int64_t process;
  int device;
  void* memory;  // Valid within the process; null if there is none.
  cudaIpcMemHandle_t handle;
};

// Lets GPU `device` write to the memory of GPU `other`.
absl::Status Reach(int device, int other) {
  if (device == other) return absl::OkStatus();
  int can_reach = 0;
  BOLE_RETURN_IF_ERROR(
      ToStatus(cudaDeviceCanAccessPeer(&can_reach, device, other),
               "question for a GPU's peers"));
  if (can_reach == 0) {
    return absl::UnavailableError(absl::StrCat(
        "GPU ", device, " cannot write to the memory of GPU ", other));
  }
  const cudaError_t error = cudaDeviceEnablePeerAccess(other, /*flags=*/0);
  if (error == cudaErrorPeerAccessAlreadyEnabled) {
    cudaGetLastError();
    return absl::OkStatus();
  }
  return ToStatus(error, "access to another GPU's memory");
}

// Exchanges the ranks' statuses, so that either all ranks continue or none.
absl::Status Agree(const absl::Status& own, Communicator& ranks) {
  const Rank rank = ranks.rank();
  const auto code = static_cast<int32_t>(own.code());
  std::vector<int32_t> codes(static_cast<size_t>(rank.count));
  BOLE_RETURN_IF_ERROR(
      ranks.AllGather(std::as_bytes(std::span(&code, 1)),
                      std::as_writable_bytes(std::span(codes))));
  BOLE_RETURN_IF_ERROR(own);
  for (int r = 0; r < rank.count; ++r) {
    if (codes[r] == 0) continue;
    return {static_cast<absl::StatusCode>(codes[r]),
            absl::StrCat("rank ", r, " cannot share memory with the others")};
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<PeerArena>> PeerArena::Create(
    int device, size_t bytes, Communicator& ranks) {
  std::unique_ptr<PeerArena> arena(new PeerArena(ranks.rank().index, bytes));
  BOLE_RETURN_IF_ERROR(Agree(arena->Open(device, ranks), ranks));
  return arena;
}

absl::Status PeerArena::Open(int device, Communicator& ranks) {
  const int count = ranks.rank().count;
  memory_.assign(static_cast<size_t>(count), nullptr);
  is_opened_.assign(static_cast<size_t>(count), false);

  // Another process opens whole pages of the driver, from their beginning, so
  // whole pages are allocated.
  constexpr size_t kPage = size_t{2} << 20;
  Offer own = {
      .process = getpid(), .device = device, .memory = nullptr, .handle = {}};
  absl::Status status =
      ToStatus(cudaMalloc(&own.memory, (bytes_ / kPage + 1) * kPage),
               "memory for other ranks");
  if (status.ok()) {
    memory_[own_] = own.memory;
    status = ToStatus(cudaIpcGetMemHandle(&own.handle, own.memory),
                      "handle of memory for other ranks");
  } else {
    status = absl::ResourceExhaustedError(absl::StrCat(
        "no room on the GPU for ", bytes_, " bytes that ranks exchange"));
  }
  std::vector<Offer> offers(static_cast<size_t>(count));
  BOLE_RETURN_IF_ERROR(
      ranks.AllGather(std::as_bytes(std::span(&own, 1)),
                      std::as_writable_bytes(std::span(offers))));
  BOLE_RETURN_IF_ERROR(status);
  for (int r = 0; r < count; ++r) {
    const Offer& offer = offers[r];
    if (r == own_ || offer.memory == nullptr) continue;
    BOLE_RETURN_IF_ERROR(Reach(device, offer.device));
    if (offer.process == own.process) {
      memory_[r] = offer.memory;
      continue;
    }
    BOLE_RETURN_IF_ERROR(
        ToStatus(cudaIpcOpenMemHandle(&memory_[r], offer.handle,
                                      cudaIpcMemLazyEnablePeerAccess),
                 absl::StrCat("opening of the memory of rank ", r)));
    is_opened_[r] = true;
  }
  return absl::OkStatus();
}

PeerArena::~PeerArena() {
  for (size_t r = 0; r < memory_.size(); ++r) {
    if (is_opened_[r]) cudaIpcCloseMemHandle(memory_[r]);
  }
  if (!memory_.empty()) cudaFree(memory_[own_]);
}

}  // namespace bole::cuda
