// The GPU backend: one device, one stream.
#ifndef BOLE_KERNELS_CUDA_CUDA_BACKEND_H_
#define BOLE_KERNELS_CUDA_CUDA_BACKEND_H_

#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/collectives_kind.h"
#include "kernels/communicator.h"
#include "kernels/cuda/attention/tile_attention.h"
#include "kernels/cuda/host_copies.h"
#include "kernels/cuda/matrix_uploads.h"
#include "kernels/cuda/moe/moe.h"
#include "kernels/cuda/operators.h"
#include "kernels/cuda/products/int7_products.h"
#include "kernels/cuda/products/matmul.h"
#include "kernels/cuda/queue_state.h"
#include "kernels/cuda/ranks/gpu_collectives.h"
#include "kernels/cuda/ranks/peer_arena.h"
#include "kernels/cuda/sampling/cut_logits.h"
#include "kernels/cuda/scratch.h"

namespace bole::cuda {

// Whether there is a device that can run this build. UNAVAILABLE says why not:
// no driver, no device, or none of the compiled targets.
absl::Status CheckDevice(int device = 0);

// A GPU that is one of several ranks.
struct GpuRank {
  // This rank's end of the group, for what the GPUs must know of each other.
  std::shared_ptr<Communicator> ranks;
  CollectivesKind collectives = CollectivesKind::kPush;
  // How long to wait for another rank's part of a sum. Less than the host waits
  // for a round, so that the error names the rank.
  std::chrono::milliseconds deadline{5000};
};

// Operators are queued on one stream, in order; the next Download, or the next
// awaited mark, returns the errors of their execution. Activations, weights and
// KV are bfloat16, or float32 for comparisons with the reference; recurrent
// states, logits and all arithmetic within an operator are float32.
//
// Used by one thread at a time. CUDA chooses the device for each thread
// separately, and a thread that has chosen none uses GPU 0: BindThread() is the
// only place where a caller's thread chooses. LoadMatrix() has threads of its
// own.
class CudaBackend final : public Backend {
 public:
  // `num_threads` threads, including the calling one, read weights in
  // LoadMatrix(); more than 16 count as 16. UNAVAILABLE as for CheckDevice().
  // With several ranks all of them call it together, and it also returns the
  // errors of GpuCollectives::Create().
  static absl::StatusOr<std::unique_ptr<CudaBackend>> Create(
      int device = 0, ElementType type = ElementType::kBFloat16,
      int num_threads = 4, const GpuRank& rank = {});
  ~CudaBackend() override;  // Binds the calling thread.

  absl::Status BindThread() override;
  std::string description() const override { return name_; }
  ElementType activation_type() const override { return on_.type; }
  Rank rank() const override {
    return ranks_ == nullptr ? Rank{} : ranks_->rank();
  }
  void AbortRanks(const absl::Status& reason) override {
    if (ranks_ != nullptr) ranks_->Abort(reason);
  }
  cudaStream_t stream() const { return on_.stream; }
  const Launch& launch() const { return on_; }

  absl::StatusOr<DeviceMemory> Allocate(size_t bytes,
                                        std::string_view what) override;
  absl::StatusOr<DeviceMemory> AllocateShared(size_t bytes,
                                              std::string_view what) override;
  absl::Status Upload(void* device, const void* host, size_t bytes) override;
  absl::Status Download(void* host, const void* device, size_t bytes) override;
  absl::StatusOr<HostMemory> AllocateHost(size_t bytes,
                                          std::string_view what) override;
  absl::Status QueueDownload(void* host, const void* device,
                             size_t bytes) override;
  absl::Status CopyDevice(void* to, const void* from, size_t bytes) override;
  absl::Status CopyToHost(std::span<const HostCopy> copies) override {
    return host_copies_->ToHost(copies, stream_of_marks());
  }
  absl::Status CopyFromHost(std::span<const HostCopy> copies) override {
    return host_copies_->FromHost(copies, stream_of_marks());
  }
  absl::Status AwaitHostCopies() override {
    return host_copies_->Await(stream_of_marks());
  }
  std::optional<MemoryState> memory() const override;
  absl::Status DownloadActivations(std::span<float> host,
                                   const Activation* device) override;
  absl::StatusOr<const WeightMatrix*> LoadMatrix(
      const MatrixSource& source) override;
  absl::StatusOr<const WeightMatrix*> GatherMatrix(
      const WeightMatrix& matrix, std::span<const int32_t> row) override;
  absl::StatusOr<const WeightMatrix*> GenerateMatrix(
      const MatrixGenerator& generator) override;
  absl::StatusOr<const WeightMatrix*> QuantizeMatrix(
      const WeightMatrix& matrix) override;
  size_t MatrixBytes(const WeightMatrix& matrix) const override;

  std::unique_ptr<ScratchMeter> MakeScratchMeter() const override;
  absl::Status ReserveScratch(size_t bytes) override;
  std::unique_ptr<GraphSet> MakeGraphs(int capacity) override;
  absl::Status SetMark(int mark) override;
  absl::Status AwaitMark(int mark) override;
  absl::StatusOr<double> SecondsBetween(int from, int to) override;

  absl::Status Embed(const EmbedParams& params) override;
  absl::Status RmsNorm(const RmsNormParams& params) override;
  absl::Status MatMul(const MatMulParams& params) override;
  absl::Status SiluMul(const SiluMulParams& params) override;
  absl::Status GatherRows(const GatherRowsParams& params) override;
  absl::Status Moe(const MoeParams& params) override;
  absl::Status AddAndProject(const AddAndProjectParams& params) override;
  absl::Status AllReduceAddNorm(const AllReduceAddNormParams& params) override;
  absl::Status AllGather(const AllGatherParams& params) override;

  absl::Status GdnConv(const GdnConvParams& params) override;
  absl::Status GdnVerify(const GdnCoreParams& params) override;
  absl::Status GdnDecode(const GdnCoreParams& params) override;
  absl::Status GdnPrefill(const GdnCoreParams& params) override;
  absl::Status GdnGatedNorm(const GdnGatedNormParams& params) override;
  absl::Status GdnCommitStates(const GdnCommitParams& params) override;
  absl::Status GdnCommitWindows(const GdnCommitParams& params) override;
  absl::Status GdnDecodeLayer(const GdnDecodeLayerParams& params) override;
  absl::Status GdnVerifyLayer(const GdnVerifyLayerParams& params) override;

  absl::Status PrepareQkv(const QkvParams& params) override;
  absl::Status Attend(const AttentionParams& params) override;
  absl::Status AttentionDecode(const AttentionDecodeParams& params) override;
  absl::Status CompactKv(const CompactKvParams& params) override;
  absl::Status CommitPath(const GdnCommitParams& linear,
                          const CompactKvParams& attention) override;

  absl::Status Sample(const SampleParams& params) override;
  absl::Status CountTokens(const CountTokensParams& params) override;
  absl::Status OutputToPrompt(const OutputToPromptParams& params) override;

  absl::Status ExtendRows(const ExtendRowsParams& params) override;
  absl::Status StoreHidden(const StoreHiddenParams& params) override;
  absl::Status DraftInputs(const DraftInputsParams& params) override;
  absl::Status TopK(const TopKParams& params) override;
  absl::Status GrowTrees(const GrowTreesParams& params) override;
  absl::Status AdvanceRequests(const AdvanceRequestsParams& params) override;
  absl::Status SelectForest(const SelectForestParams& params) override;

  // The bytes of scratch that these operators need, where that depends on how
  // this backend runs them.
  size_t ScratchBytes(const AddAndProjectParams& params) const;
  size_t ScratchBytes(const AttentionParams& params) const;
  size_t ScratchBytes(const SampleParams& params) const;
  size_t ScratchBytes(const TopKParams& params) const;

 private:
  CudaBackend(int device, ElementType type, int num_threads)
      : device_(device),
        num_threads_(num_threads),
        on_{.type = type, .stream = nullptr} {}
  void Free(void* memory) override;
  void FreeHost(void* memory) override;
  // The stream of operators, on which copies and marks are queued too: callers
  // say which of the two they queue.
  cudaStream_t stream_of_copies() {
    queue_state_.QueueCopy();
    return on_.stream;
  }
  cudaStream_t stream_of_marks() const {
    queue_state_.QueueMark();
    return on_.stream;
  }
  // Whether both products are run as one.
  bool TakesPair(const AddAndProjectParams& params) const;
  // A matrix of unspecified content, which is not in matrices_ yet.
  absl::StatusOr<std::unique_ptr<DeviceMatrix>> NewMatrix(int rows,
                                                          int columns) const;
  absl::Status JoinRanks(const GpuRank& rank);
  absl::Status OneRankOnly() const;
  // Whether operators that read logits first gather whole logits in their
  // scratch, because ranks do not reach each other's memory.
  bool MakesLogitsWhole() const {
    return collectives_ != nullptr && collectives_->push_group() == nullptr;
  }
  // How many bytes of the scratch whole logits take: 0 if they are not
  // gathered.
  size_t WholeBytes(int rows, int vocabulary) const;
  // The logits as kernels read them: whole, or this rank's part of them.
  absl::StatusOr<CutLogits> LogitsOf(RowCount rows, const float* logits,
                                     int vocabulary,
                                     std::span<const int> rank_columns,
                                     void* scratch);
  // The same, with the other ranks' parts.
  absl::StatusOr<CutLogits> LogitsOf(const SampleParams& params, void* scratch);
  // OK if what has been waited for was computed with all ranks.
  absl::Status CheckRanks() const;

  const int device_;
  const int num_threads_;
  std::string name_;
  Launch on_;
  std::shared_ptr<Communicator> ranks_;          // Null if there is one rank.
  std::unique_ptr<GpuCollectives> collectives_;  // The same.
  // The memory from AllocateShared() that other ranks can read.
  std::vector<std::unique_ptr<PeerArena>> shared_;
  std::array<cudaEvent_t, kNumMarks> marks_ = {};
  QueueState queue_state_;
  std::unique_ptr<HostCopies> host_copies_;
  std::unique_ptr<MatrixUploads> uploads_;  // Null until LoadMatrix().
  std::unique_ptr<MatMuls> matmuls_;
  std::unique_ptr<Int7Products> int7_products_;
  std::vector<std::unique_ptr<DeviceMatrix>> matrices_;
  MoeRunner moe_;
  std::unique_ptr<TileAttention> tile_attention_;
  Scratch scratch_;           // For the operators that need some.
  DeviceMemory num_claimed_;  // int32 counter of commits; 0 between them.
};

}  // namespace bole::cuda

#endif  // BOLE_KERNELS_CUDA_CUDA_BACKEND_H_
