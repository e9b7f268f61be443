// Copies weight matrices from the host's memory to the GPU's.
#ifndef BOLE_KERNELS_CUDA_MATRIX_UPLOADS_H_
#define BOLE_KERNELS_CUDA_MATRIX_UPLOADS_H_

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/thread_pool.h"
#include "cuda_runtime_api.h"
#include "kernels/cuda/operators.h"
#include "kernels/device.h"
#include "kernels/matrix_source.h"

namespace bole::cuda {

// Several threads copy pieces of a matrix to pinned memory, usually from the
// pages of a mapped file, while earlier pieces are being sent to the device.
// The threads and the pinned memory, 64 MiB at most, live as long as the
// object.
//
// It is called by one thread at a time, which must be bound to the device.
class MatrixUploads {
 public:
  // Uploads to GPU `gpu`, which the calling thread is bound to, with
  // `num_threads` threads, the calling one included, but at most 16. `device`
  // allocates the pinned memory and must outlive the result. RESOURCE_EXHAUSTED
  // if it cannot be allocated.
  static absl::StatusOr<std::unique_ptr<MatrixUploads>> Create(Device& device,
                                                               int gpu,
                                                               int num_threads);
  ~MatrixUploads();  // Waits for what is queued.

  MatrixUploads(const MatrixUploads&) = delete;
  MatrixUploads& operator=(const MatrixUploads&) = delete;

  // Writes the matrix to `to` [rows, columns] of on.type, as
  // WeightStore::LoadMatrix() says. Returns when the source has been read. Work
  // that is queued on on.stream afterwards begins after the writes; the host
  // waits for them only after an error.
  absl::Status Upload(const MatrixSource& source, void* to, const Launch& on);

 private:
  // Pinned memory for a piece.
  struct Stage {
    std::byte* memory = nullptr;
    cudaEvent_t sent = nullptr;  // Its last piece has reached the device.
  };
  // The stages that one thread fills in turn.
  struct Sender {
    std::vector<Stage> stages;
    size_t next = 0;
  };
  // A matrix that is being uploaded.
  struct Job {
    std::span<const MatrixPiece> pieces;
    int columns;
    std::byte* to;
    ElementType type;
    std::atomic<size_t> next{0};  // The first piece that no thread has taken.
  };

  MatrixUploads(int gpu, int num_threads);
  absl::Status SendPieces(Sender& sender, Job& job);
  absl::Status Queue(const MatrixPiece& piece, const Stage& stage,
                     const Job& job);

  const int gpu_;
  HostMemory memory_;  // Holds all stages.
  std::vector<Sender> senders_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t uploaded_ = nullptr;
  ThreadPool pool_;
};

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_MATRIX_UPLOADS_H_
