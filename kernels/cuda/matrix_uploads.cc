#include "kernels/cuda/matrix_uploads.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "common/status_macros.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/stored_elements.h"

namespace bole::cuda {
namespace {

// One thread copies a few GB/s from the page cache, and the bus transfers tens
// of GB/s.
constexpr int kMaxThreads = 16;
// One stage is filled while the other one is sent.
constexpr size_t kStagesOfThread = 2;
constexpr size_t kStageBytes = size_t{2} << 20;
// Smaller pieces would cost more than other threads save.
constexpr size_t kMinPieceBytes = size_t{128} << 10;

constexpr char kWhat[] = "copy of a matrix to the GPU";

}  // namespace

absl::StatusOr<std::unique_ptr<MatrixUploads>> MatrixUploads::Create(
    Device& device, int gpu, int num_threads) {
  num_threads = std::clamp(num_threads, 1, kMaxThreads);
  std::unique_ptr<MatrixUploads> uploads(new MatrixUploads(gpu, num_threads));
  const size_t stages_bytes = kStagesOfThread * kStageBytes;
  BOLE_ASSIGN_OR_RETURN(
      uploads->memory_,
      device.AllocateHost(num_threads * stages_bytes, "weights being loaded"));
  BOLE_RETURN_IF_ERROR(ToStatus(
      cudaStreamCreateWithFlags(&uploads->stream_, cudaStreamNonBlocking),
      "stream of weights"));
  const auto make_event = [](cudaEvent_t& event) {
    return ToStatus(cudaEventCreateWithFlags(&event, cudaEventDisableTiming),
                    "event of weights");
  };
  BOLE_RETURN_IF_ERROR(make_event(uploads->uploaded_));
  auto* memory = static_cast<std::byte*>(uploads->memory_.get());
  for (Sender& sender : uploads->senders_) {
    for (size_t i = 0; i < kStagesOfThread; ++i, memory += kStageBytes) {
      Stage& stage = sender.stages.emplace_back();
      stage.memory = memory;
      BOLE_RETURN_IF_ERROR(make_event(stage.sent));
    }
  }
  return uploads;
}

MatrixUploads::MatrixUploads(int gpu, int num_threads)
    : gpu_(gpu), senders_(num_threads), pool_(num_threads) {}

MatrixUploads::~MatrixUploads() {
  if (stream_ != nullptr) {
    cudaStreamSynchronize(stream_);
    cudaStreamDestroy(stream_);
  }
  if (uploaded_ != nullptr) cudaEventDestroy(uploaded_);
  for (const Sender& sender : senders_) {
    for (const Stage& stage : sender.stages) {
      if (stage.sent != nullptr) cudaEventDestroy(stage.sent);
    }
  }
}

absl::Status MatrixUploads::Upload(const MatrixSource& source, void* to,
                                   const Launch& on) {
  // Small matrices, too, are divided among all threads.
  const size_t share = static_cast<size_t>(source.bytes()) / senders_.size();
  const std::vector<MatrixPiece> pieces =
      Divide(source, std::clamp(share, kMinPieceBytes, kStageBytes));
  Job job{.pieces = pieces,
          .columns = source.columns,
          .to = static_cast<std::byte*>(to),
          .type = on.type};
  const size_t num_senders = std::min(senders_.size(), pieces.size());
  std::vector<absl::Status> sent(num_senders);
  pool_.ParallelFor(static_cast<int>(num_senders),
                    [&](int i) { sent[i] = SendPieces(senders_[i], job); });
  for (const absl::Status& status : sent) {
    if (status.ok()) continue;
    cudaStreamSynchronize(stream_);  // The caller may free the memory.
    return status;
  }
  BOLE_RETURN_IF_ERROR(ToStatus(cudaEventRecord(uploaded_, stream_), kWhat));
  return ToStatus(cudaStreamWaitEvent(on.stream, uploaded_, 0), kWhat);
}

absl::Status MatrixUploads::SendPieces(Sender& sender, Job& job) {
  // The pool's threads are not bound to a device yet.
  BOLE_RETURN_IF_ERROR(ToStatus(cudaSetDevice(gpu_), "choice of the GPU"));
  while (true) {
    const size_t index = job.next.fetch_add(1, std::memory_order_relaxed);
    if (index >= job.pieces.size()) return absl::OkStatus();
    const MatrixPiece& piece = job.pieces[index];
    const Stage& stage = sender.stages[sender.next];
    sender.next = (sender.next + 1) % sender.stages.size();
    BOLE_RETURN_IF_ERROR(ToStatus(cudaEventSynchronize(stage.sent), kWhat));
    CopyPiece(piece, job.columns, stage.memory);
    BOLE_RETURN_IF_ERROR(Queue(piece, stage, job));
    BOLE_RETURN_IF_ERROR(ToStatus(cudaEventRecord(stage.sent, stream_), kWhat));
  }
}

absl::Status MatrixUploads::Queue(const MatrixPiece& piece, const Stage& stage,
                                  const Job& job) {
  const SourceType source = piece.block->type;
  void* const to =
      job.to + static_cast<size_t>(piece.offset) * ElementBytes(job.type);
  if (IsStoredAs(job.type, source)) {
    return ToStatus(cudaMemcpyAsync(to, stage.memory, piece.bytes(),
                                    cudaMemcpyHostToDevice, stream_),
                    kWhat);
  }
  return ConvertElements({.source = source,
                          .from = stage.memory,
                          .type = job.type,
                          .to = to,
                          .count = piece.count},
                         stream_);
}

}  // namespace bole::cuda
