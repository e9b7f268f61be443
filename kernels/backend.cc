// Operators of several steps, as those that define them.
#include "kernels/backend.h"

#include <variant>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace bole {
namespace {

absl::Status OneRankOnly(const Backend& backend) {
  return absl::UnimplementedError(
      absl::StrCat(backend.description(), " runs a model on one rank only"));
}

absl::Status Run(const MatMulParams& params, Backend& backend) {
  return backend.MatMul(params);
}
absl::Status Run(const MoeParams& params, Backend& backend) {
  return backend.Moe(params);
}

}  // namespace

absl::Status Backend::AddAndProject(const AddAndProjectParams& params) {
  absl::Status status = AddAndNorm(
      {.add = params.add, .norm = params.norm, .partial = params.partial});
  if (status.ok()) status = MatMul(params.project);
  if (status.ok() && params.gate) status = SiluMul(*params.gate);
  return status;
}

absl::Status Backend::AddAndNorm(const AddAndNormParams& params) {
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

absl::Status Backend::AllReduceAddNorm(
    const AllReduceAddNormParams& /*params*/) {
  return OneRankOnly(*this);
}

absl::Status Backend::AllGather(const AllGatherParams& /*params*/) {
  return OneRankOnly(*this);
}

absl::Status Backend::GdnDecodeLayer(const GdnDecodeLayerParams& p) {
  absl::Status status = GdnConv(p.conv);
  if (status.ok()) status = GdnDecode(p.core);
  if (status.ok()) status = GdnCommitWindows(p.windows);
  if (status.ok()) status = GdnGatedNorm(p.norm);
  return status;
}

absl::Status Backend::GdnVerifyLayer(const GdnVerifyLayerParams& p) {
  absl::Status status = GdnConv(p.conv);
  if (status.ok()) status = GdnVerify(p.core);
  if (status.ok()) status = GdnGatedNorm(p.norm);
  return status;
}

absl::Status Backend::AttentionDecode(const AttentionDecodeParams& params) {
  const absl::Status status = PrepareQkv(params.qkv);
  return status.ok() ? Attend(params.attend) : status;
}

absl::Status Backend::CommitPath(const GdnCommitParams& linear,
                                 const CompactKvParams& attention) {
  absl::Status status = GdnCommitStates(linear);
  if (status.ok()) status = GdnCommitWindows(linear);
  if (status.ok()) status = CompactKv(attention);
  return status;
}

}  // namespace bole
