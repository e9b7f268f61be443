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

// This rank's memory and its view of the others', which may be in this process
// or in others of the same host. Nobody may use it any more when it is
// destroyed.
class PeerArena {
 public:
  // All ranks call it together, each bound to its GPU: the calling thread's is
  // `device`. UNAVAILABLE, on every rank, names two GPUs that cannot reach each
  // other; RESOURCE_EXHAUSTED without memory. Content is unspecified.
  static absl::StatusOr<std::unique_ptr<PeerArena>> Create(int device,
                                                           size_t bytes,
                                                           Communicator& ranks);
  ~PeerArena();  // The calling thread is bound to the GPU.

  PeerArena(const PeerArena&) = delete;
  PeerArena& operator=(const PeerArena&) = delete;

  // Whether this rank's memory has the byte, and where.
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
  std::vector<bool> is_opened_;  // By rank: it is another process's.
};

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_RANKS_PEER_ARENA_H_
