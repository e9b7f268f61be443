// Memory of each rank's GPU that all ranks can read and write.
#ifndef BOLE_KERNELS_CUDA_RANKS_PEER_ARENA_H_
#define BOLE_KERNELS_CUDA_RANKS_PEER_ARENA_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/communicator.h"

namespace bole::cuda {

// This rank's memory and its view of the other ranks' memory, which may be in
// this process or in others on the same host. Nobody may use the memory any
// more when the arena is destroyed.
class PeerArena {
 public:
  // All ranks call it together, each from a thread that is bound to its GPU,
  // `device`. UNAVAILABLE, on every rank, if two GPUs cannot reach each other;
  // RESOURCE_EXHAUSTED if there is no memory. The content is unspecified.
  static absl::StatusOr<std::unique_ptr<PeerArena>> Create(int device,
                                                           size_t bytes,
                                                           Communicator& ranks);
  ~PeerArena();  // The calling thread must be bound to the GPU.

  PeerArena(const PeerArena&) = delete;
  PeerArena& operator=(const PeerArena&) = delete;

  // Whether this rank's memory contains the byte; of() says where a rank's
  // memory begins.
  bool Has(const void* byte) const {
    return byte >= of(own_) && byte < of(own_) + bytes_;
  }
  char* of(int rank) const { return static_cast<char*>(memory_[rank]); }

 private:
  PeerArena(int own, size_t bytes) : own_(own), bytes_(bytes) {}
  absl::Status Open(int device, Communicator& ranks);

  const int own_;
  const size_t bytes_;
  std::vector<void*> memory_;    // By rank; this rank's is owned.
  std::vector<bool> is_opened_;  // By rank: mapped from another process.
};

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_RANKS_PEER_ARENA_H_
