// How much scratch operators would need, without running any.
#ifndef BOLE_KERNELS_SCRATCH_METER_H_
#define BOLE_KERNELS_SCRATCH_METER_H_

#include <algorithm>
#include <cstddef>

#include "absl/status/status.h"
#include "kernels/operator_set.h"
#include "kernels/rank.h"

namespace bole {

// Stands in for a backend's operators in a pass of which only the shapes
// matter: pointers in device memory may be null, and nothing is computed.
// Operators of several steps are the steps that define them, where the subclass
// of a backend does not say otherwise; a subclass notes what its operators
// need.
class ScratchMeter : public OperatorSet {
 public:
  explicit ScratchMeter(Rank rank) : rank_(rank) {}

  // The most that one operator needs, of all that were called.
  size_t bytes() const { return bytes_; }

  Rank rank() const override { return rank_; }

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

  const Rank rank_;
  size_t bytes_ = 0;
};

}  // namespace bole

#endif  // BOLE_KERNELS_SCRATCH_METER_H_
