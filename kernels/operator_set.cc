// Operators of several steps, as those that define them.
#include "kernels/operator_set.h"

#include <variant>

#include "absl/status/status.h"

namespace bole {
namespace {

absl::Status Run(const MatMulParams& params, OperatorSet& operators) {
  return operators.MatMul(params);
}
absl::Status Run(const MoeParams& params, OperatorSet& operators) {
  return operators.Moe(params);
}

}  // namespace

absl::Status OperatorSet::AddAndProject(const AddAndProjectParams& params) {
  absl::Status status = AddAndNorm(
      {.add = params.add, .norm = params.norm, .partial = params.partial});
  if (status.ok()) status = MatMul(params.project);
  if (status.ok() && params.gate) status = SiluMul(*params.gate);
  return status;
}

absl::Status OperatorSet::AddAndNorm(const AddAndNormParams& params) {
  return std::visit(
      [&](auto add) {
        if (rank().count == 1) {
          const absl::Status status = Run(add, *this);
          return status.ok() ? RmsNorm(params.norm) : status;
        }
        Activation* const residual = add.out;
        add.out = params.partial;
        add.accumulate = false;
        absl::Status status = Run(add, *this);
        if (!status.ok()) return status;
        return AllReduceAddNorm({.rows = params.norm.rows,
                                 .width = params.norm.width,
                                 .epsilon = params.norm.epsilon,
                                 .partial = params.partial,
                                 .residual = residual,
                                 .weight = params.norm.weight,
                                 .out = params.norm.out});
      },
      params.add);
}

absl::Status OperatorSet::GdnDecodeLayer(const GdnDecodeLayerParams& p) {
  absl::Status status = GdnConv(p.conv);
  if (status.ok()) status = GdnDecode(p.core);
  if (status.ok()) status = GdnCommitWindows(p.windows);
  if (status.ok()) status = GdnGatedNorm(p.norm);
  return status;
}

absl::Status OperatorSet::GdnVerifyLayer(const GdnVerifyLayerParams& p) {
  absl::Status status = GdnConv(p.conv);
  if (status.ok()) status = GdnVerify(p.core);
  if (status.ok()) status = GdnGatedNorm(p.norm);
  return status;
}

absl::Status OperatorSet::AttentionDecode(const AttentionDecodeParams& params) {
  const absl::Status status = PrepareQkv(params.qkv);
  return status.ok() ? Attend(params.attend) : status;
}

absl::Status OperatorSet::CommitPath(const GdnCommitParams& linear,
                                     const CompactKvParams& attention) {
  absl::Status status = GdnCommitStates(linear);
  if (status.ok()) status = GdnCommitWindows(linear);
  if (status.ok()) status = CompactKv(attention);
  return status;
}

}  // namespace bole
