// How much scratch operators would need, without running any.
#ifndef BOLE_KERNELS_SCRATCH_METER_H_
#define BOLE_KERNELS_SCRATCH_METER_H_

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/backend.h"

namespace bole {

// Stands in for a backend in a pass of which only the shapes matter: pointers
// in device memory may be null, nothing is computed, and there is no memory to
// be had. Operators of several steps are the steps that define them, where the
// subclass of a backend does not say otherwise; a subclass notes what its
// operators need.
class ScratchMeter : public Backend {
 public:
  // `of` must outlive this.
  explicit ScratchMeter(const Backend& of) : of_(of) {}

  // The most that one operator needs, of all that were called.
  size_t bytes() const { return bytes_; }

  std::string description() const override { return of_.description(); }
  Rank rank() const override { return of_.rank(); }
  ElementType activation_type() const override { return of_.activation_type(); }
  size_t MatrixBytes(const WeightMatrix& matrix) const override {
    return of_.MatrixBytes(matrix);
  }
  std::optional<MemoryState> memory() const override { return of_.memory(); }
  std::unique_ptr<ScratchMeter> MakeScratchMeter() const override {
    return of_.MakeScratchMeter();
  }
  std::unique_ptr<GraphSet> MakeGraphs(int /*capacity*/) override {
    return std::make_unique<QueuedGraphs>();
  }

  absl::StatusOr<DeviceMemory> Allocate(size_t, std::string_view) override {
    return NoMemory();
  }
  absl::Status Upload(void*, const void*, size_t) override {
    return NoMemory();
  }
  absl::Status Download(void*, const void*, size_t) override {
    return NoMemory();
  }
  absl::StatusOr<HostMemory> AllocateHost(size_t, std::string_view) override {
    return NoMemory();
  }
  absl::Status QueueDownload(void*, const void*, size_t) override {
    return NoMemory();
  }
  absl::Status CopyDevice(void*, const void*, size_t) override {
    return NoMemory();
  }
  absl::Status CopyToHost(std::span<const HostCopy>) override {
    return NoMemory();
  }
  absl::Status CopyFromHost(std::span<const HostCopy>) override {
    return NoMemory();
  }
  absl::Status AwaitHostCopies() override { return NoMemory(); }
  absl::Status DownloadActivations(std::span<float>,
                                   const Activation*) override {
    return NoMemory();
  }
  absl::StatusOr<const WeightMatrix*> LoadMatrix(const MatrixSource&) override {
    return NoMemory();
  }
  absl::StatusOr<const WeightMatrix*> GatherMatrix(
      const WeightMatrix&, std::span<const int32_t>) override {
    return NoMemory();
  }
  absl::StatusOr<const WeightMatrix*> GenerateMatrix(
      const MatrixGenerator&) override {
    return NoMemory();
  }
  absl::StatusOr<const WeightMatrix*> QuantizeMatrix(
      const WeightMatrix&) override {
    return NoMemory();
  }
  absl::Status ReserveScratch(size_t) override { return NoMemory(); }
  absl::Status SetMark(int) override { return NoMemory(); }
  absl::Status AwaitMark(int) override { return NoMemory(); }
  absl::StatusOr<double> SecondsBetween(int, int) override {
    return NoMemory();
  }

  absl::Status Embed(const EmbedParams&) override { return Nothing(); }
  absl::Status RmsNorm(const RmsNormParams&) override { return Nothing(); }
  absl::Status MatMul(const MatMulParams&) override { return Nothing(); }
  absl::Status SiluMul(const SiluMulParams&) override { return Nothing(); }
  absl::Status GatherRows(const GatherRowsParams&) override {
    return Nothing();
  }
  absl::Status Moe(const MoeParams&) override { return Nothing(); }
  absl::Status AllReduceAddNorm(const AllReduceAddNormParams&) override {
    return Nothing();
  }
  absl::Status AllGather(const AllGatherParams&) override { return Nothing(); }

  absl::Status GdnConv(const GdnConvParams&) override { return Nothing(); }
  absl::Status GdnVerify(const GdnCoreParams&) override { return Nothing(); }
  absl::Status GdnDecode(const GdnCoreParams&) override { return Nothing(); }
  absl::Status GdnPrefill(const GdnCoreParams&) override { return Nothing(); }
  absl::Status GdnGatedNorm(const GdnGatedNormParams&) override {
    return Nothing();
  }
  absl::Status GdnCommitStates(const GdnCommitParams&) override {
    return Nothing();
  }
  absl::Status GdnCommitWindows(const GdnCommitParams&) override {
    return Nothing();
  }

  absl::Status PrepareQkv(const QkvParams&) override { return Nothing(); }
  absl::Status Attend(const AttentionParams&) override { return Nothing(); }
  absl::Status CompactKv(const CompactKvParams&) override { return Nothing(); }

  absl::Status Sample(const SampleParams&) override { return Nothing(); }
  absl::Status CountTokens(const CountTokensParams&) override {
    return Nothing();
  }
  absl::Status OutputToPrompt(const OutputToPromptParams&) override {
    return Nothing();
  }

  absl::Status ExtendRows(const ExtendRowsParams&) override {
    return Nothing();
  }
  absl::Status StoreHidden(const StoreHiddenParams&) override {
    return Nothing();
  }
  absl::Status DraftInputs(const DraftInputsParams&) override {
    return Nothing();
  }
  absl::Status TopK(const TopKParams&) override { return Nothing(); }
  absl::Status GrowTrees(const GrowTreesParams&) override { return Nothing(); }
  absl::Status AdvanceRequests(const AdvanceRequestsParams&) override {
    return Nothing();
  }
  absl::Status SelectForest(const SelectForestParams&) override {
    return Nothing();
  }

 protected:
  absl::Status Note(size_t bytes) {
    bytes_ = std::max(bytes_, bytes);
    return absl::OkStatus();
  }

 private:
  static absl::Status Nothing() { return absl::OkStatus(); }
  static absl::Status NoMemory() {
    return absl::FailedPreconditionError("a meter of scratch has no memory");
  }
  void Free(void*) override {}
  void FreeHost(void*) override {}

  const Backend& of_;
  size_t bytes_ = 0;
};

}  // namespace bole

#endif  // BOLE_KERNELS_SCRATCH_METER_H_
