// The CPU backend: float32, plain loops and one vector product. It defines
// every operator; other backends are compared with it.
#ifndef BOLE_KERNELS_REFERENCE_REFERENCE_BACKEND_H_
#define BOLE_KERNELS_REFERENCE_REFERENCE_BACKEND_H_

#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/thread_pool.h"
#include "kernels/backend.h"
#include "kernels/communicator.h"
#include "kernels/reference/packed_matrix.h"

namespace bole {

// Operators run synchronously, on the calling thread and the pool's, and report
// no errors but those of collectives. A row's result depends on its own
// sequence alone, bit for bit: not on the other requests of the batch, nor on
// the number of threads.
class ReferenceBackend : public Backend {
 public:
  // One rank of the communicator's group, or, without one, the only rank.
  explicit ReferenceBackend(int num_threads,
                            std::shared_ptr<Communicator> ranks = nullptr)
      : pool_(num_threads), ranks_(std::move(ranks)) {}

  std::string description() const override;
  Rank rank() const override {
    return ranks_ == nullptr ? Rank{} : ranks_->rank();
  }
  void AbortRanks(const absl::Status& reason) override {
    if (ranks_ != nullptr) ranks_->Abort(reason);
  }
  ElementType activation_type() const override { return ElementType::kFloat32; }

  absl::StatusOr<DeviceMemory> Allocate(size_t bytes,
                                        std::string_view what) override;
  absl::Status Upload(void* device, const void* host, size_t bytes) override;
  absl::Status Download(void* host, const void* device, size_t bytes) override;
  absl::Status DownloadActivations(std::span<float> host,
                                   const Activation* device) override;
  absl::StatusOr<HostMemory> AllocateHost(size_t bytes,
                                          std::string_view what) override;
  absl::Status QueueDownload(void* host, const void* device,
                             size_t bytes) override;
  absl::Status CopyDevice(void* to, const void* from, size_t bytes) override;
  absl::Status CopyToHost(std::span<const HostCopy> copies) override;
  absl::Status CopyFromHost(std::span<const HostCopy> copies) override;
  absl::Status AwaitHostCopies() override { return absl::OkStatus(); }
  std::optional<MemoryState> memory() const override { return std::nullopt; }
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
  std::unique_ptr<GraphSet> MakeGraphs(int /*capacity*/) override {
    return std::make_unique<QueuedGraphs>();
  }
  absl::Status SetMark(int mark) override;
  absl::Status AwaitMark(int mark) override;
  absl::StatusOr<double> SecondsBetween(int from, int to) override;

  absl::Status Embed(const EmbedParams& params) override;
  absl::Status RmsNorm(const RmsNormParams& params) override;
  absl::Status MatMul(const MatMulParams& params) override;
  absl::Status SiluMul(const SiluMulParams& params) override;
  absl::Status GatherRows(const GatherRowsParams& params) override;
  absl::Status Moe(const MoeParams& params) override;
  absl::Status AllReduceAddNorm(const AllReduceAddNormParams& params) override;
  absl::Status AllGather(const AllGatherParams& params) override;

  absl::Status GdnConv(const GdnConvParams& params) override;
  absl::Status GdnVerify(const GdnCoreParams& params) override;
  absl::Status GdnDecode(const GdnCoreParams& params) override;
  absl::Status GdnPrefill(const GdnCoreParams& params) override;
  absl::Status GdnGatedNorm(const GdnGatedNormParams& params) override;
  absl::Status GdnCommitStates(const GdnCommitParams& params) override;
  absl::Status GdnCommitWindows(const GdnCommitParams& params) override;

  absl::Status PrepareQkv(const QkvParams& params) override;
  absl::Status Attend(const AttentionParams& params) override;
  absl::Status CompactKv(const CompactKvParams& params) override;

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

 private:
  void Free(void* memory) override;
  void FreeHost(void* memory) override;
  // Returns a matrix of zeros that the backend does not keep yet.
  static absl::StatusOr<std::unique_ptr<reference::PackedMatrix>> NewMatrix(
      int rows, int columns);

  ThreadPool pool_;
  const std::shared_ptr<Communicator> ranks_;
  std::array<std::chrono::steady_clock::time_point, kNumMarks> marks_;
  std::vector<std::unique_ptr<reference::PackedMatrix>> matrices_;
};

}  // namespace bole

#endif  // BOLE_KERNELS_REFERENCE_REFERENCE_BACKEND_H_
