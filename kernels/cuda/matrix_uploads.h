// Weight matrices from the host's memory to the GPU's.
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

// Several threads each copy pieces of a matrix to pinned memory, from the pages
// of a mapped file as a rule, while earlier pieces are on their way to the
// device. Threads and pinned memory, 64 MiB at most, are kept until the end.
//
// One thread at a time calls it, which must be bound to the device.
class MatrixUploads {
 public:
  // On GPU `gpu`, which the calling thread is bound to, with `num_threads` or
  // 16 if that is more, the calling one included. `device` allocates the pinned
  // memory and must outlive the result. RESOURCE_EXHAUSTED without it.
  static absl::StatusOr<std::unique_ptr<MatrixUploads>> Create(Device& device,
                                                               int gpu,
                                                               int num_threads);
  ~MatrixUploads();  // Waits for what is queued.

  MatrixUploads(const MatrixUploads&) = delete;
  MatrixUploads& operator=(const MatrixUploads&) = delete;

  // Writes the matrix to `to` [rows, columns] of on.type, as
  // WeightStore::LoadMatrix() says. Returns when the source has been read. What
  // is queued on on.stream afterwards begins after the writes; the host does
  // not wait for them, but after an error.
  absl::Status Upload(const MatrixSource& source, void* to, const Launch& on);

 private:
  // Pinned memory for a piece.
  struct Stage {
    std::byte* memory = nullptr;
    cudaEvent_t sent = nullptr;  // When the last piece in it was on the device.
  };
  // What one thread fills, in turn.
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
  HostMemory memory_;  // All stages lie in it.
  std::vector<Sender> senders_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t uploaded_ = nullptr;
  ThreadPool pool_;
};

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_MATRIX_UPLOADS_H_
