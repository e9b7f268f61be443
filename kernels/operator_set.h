#ifndef BOLE_KERNELS_OPERATOR_SET_H_
#define BOLE_KERNELS_OPERATOR_SET_H_

#include "absl/status/status.h"
#include "kernels/add_and_project.h"
#include "kernels/attention.h"
#include "kernels/collectives.h"
#include "kernels/dense.h"
#include "kernels/draft_inputs.h"
#include "kernels/drafting.h"
#include "kernels/gdn.h"
#include "kernels/rank.h"
#include "kernels/sampling.h"

namespace bole {

// Every operator, declared once: all that layers and the drafter know of the
// machine. The reference backend (CPU, float32) defines each of them.
//
// A round is a sequence of operator calls between two copies: the plan goes up,
// the result comes down. Nothing in between is read by the host: counts, paths
// and trees stay on the device, and shapes are capacities. So the calls may be
// queued, and may be captured once per bucket and replayed.
//
// Operators return an error when a shape or option is not supported, before
// anything is queued. Values in device memory (ids, slots, pages) are the
// caller's to validate: out-of-range values are undefined behaviour.
// Not thread-safe; who may call is said in kernels/device.h.
class OperatorSet {
 public:
  virtual ~OperatorSet() = default;

  // Which of the devices that run a model together these run on.
  virtual Rank rank() const { return {}; }
  // Tells the other ranks that this one has failed, so that they do not wait
  // for it; their operators and its own fail from then on.
  virtual void AbortRanks(const absl::Status& /*reason*/) {}

  // Dense (kernels/dense.h).
  virtual absl::Status Embed(const EmbedParams& params) = 0;
  virtual absl::Status RmsNorm(const RmsNormParams& params) = 0;
  virtual absl::Status MatMul(const MatMulParams& params) = 0;
  virtual absl::Status SiluMul(const SiluMulParams& params) = 0;
  virtual absl::Status GatherRows(const GatherRowsParams& params) = 0;
  virtual absl::Status Moe(const MoeParams& params) = 0;
  // The operators that define it, unless a backend has them as one.
  virtual absl::Status AddAndProject(const AddAndProjectParams& params);
  // The operators that define it.
  absl::Status AddAndNorm(const AddAndNormParams& params);

  // All ranks call these together (kernels/collectives.h). UNIMPLEMENTED where
  // a model is always on one rank; errors of Communicator elsewhere.
  virtual absl::Status AllReduceAddNorm(
      const AllReduceAddNormParams& params) = 0;
  virtual absl::Status AllGather(const AllGatherParams& params) = 0;

  // Gated DeltaNet (kernels/gdn.h).
  virtual absl::Status GdnConv(const GdnConvParams& params) = 0;
  virtual absl::Status GdnVerify(const GdnCoreParams& params) = 0;
  virtual absl::Status GdnDecode(const GdnCoreParams& params) = 0;
  virtual absl::Status GdnPrefill(const GdnCoreParams& params) = 0;
  virtual absl::Status GdnGatedNorm(const GdnGatedNormParams& params) = 0;
  virtual absl::Status GdnCommitStates(const GdnCommitParams& params) = 0;
  virtual absl::Status GdnCommitWindows(const GdnCommitParams& params) = 0;
  // The operators that define them, unless a backend has them as one.
  virtual absl::Status GdnDecodeLayer(const GdnDecodeLayerParams& params);
  virtual absl::Status GdnVerifyLayer(const GdnVerifyLayerParams& params);

  // Full attention (kernels/attention.h).
  virtual absl::Status PrepareQkv(const QkvParams& params) = 0;
  virtual absl::Status Attend(const AttentionParams& params) = 0;
  // The operators that define it, unless a backend has them as one.
  virtual absl::Status AttentionDecode(const AttentionDecodeParams& params);
  virtual absl::Status CompactKv(const CompactKvParams& params) = 0;

  // An accepted path becomes part of its sequences, in all layers: the three
  // operators that define it, unless a backend has them as one. Both have the
  // same batch and path; requests whose path is empty keep what they have.
  // States are read while the operator before may still run, which must not
  // write them.
  virtual absl::Status CommitPath(const GdnCommitParams& linear,
                                  const CompactKvParams& attention);

  // Sampling (kernels/sampling.h).
  virtual absl::Status Sample(const SampleParams& params) = 0;
  virtual absl::Status CountTokens(const CountTokensParams& params) = 0;
  virtual absl::Status OutputToPrompt(const OutputToPromptParams& params) = 0;

  // Drafting (kernels/drafting.h, kernels/draft_inputs.h).
  virtual absl::Status ExtendRows(const ExtendRowsParams& params) = 0;
  virtual absl::Status StoreHidden(const StoreHiddenParams& params) = 0;
  virtual absl::Status DraftInputs(const DraftInputsParams& params) = 0;
  virtual absl::Status TopK(const TopKParams& params) = 0;
  virtual absl::Status GrowTrees(const GrowTreesParams& params) = 0;
  virtual absl::Status AdvanceRequests(const AdvanceRequestsParams& params) = 0;
  virtual absl::Status SelectForest(const SelectForestParams& params) = 0;
};

}  // namespace bole

#endif  // BOLE_KERNELS_OPERATOR_SET_H_
