// Operators of several steps, as those that define them.
#include "kernels/backend.h"

#include "absl/status/status.h"

namespace bole {

absl::Status Backend::AddAndProject(const AddAndProjectParams& params) {
  absl::Status status = MatMul(params.add);
  if (status.ok()) status = RmsNorm(params.norm);
  if (status.ok()) status = MatMul(params.project);
  if (status.ok() && params.gate) status = SiluMul(*params.gate);
  return status;
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
