#include "worker_service/loading/draft_weights.h"

#include <variant>
#include <vector>

#include "common/status_macros.h"
#include "kernels/tensor.h"

namespace bole {
namespace {

// The drafter's pointers to matrices of its own that a matrix product reads.
std::vector<const WeightMatrix**> OwnMatrices(DrafterWeights& drafter) {
  std::vector<const WeightMatrix**> own = {&drafter.projection};
  if (auto* mixer = std::get_if<AttentionWeights>(&drafter.layer.mixer)) {
    own.push_back(&mixer->projection);
    own.push_back(&mixer->output);
  }
  if (auto* ffn = std::get_if<DenseFfnWeights>(&drafter.layer.ffn)) {
    own.push_back(&ffn->gate_up);
    own.push_back(&ffn->down);
  }
  if (drafter.head != nullptr) own.push_back(&drafter.head);
  return own;
}

}  // namespace

void AddDraftWeightsFlag(CommandLine& command, DraftWeights& kind) {
  command.AddChoice(
      "--draft-weights", kind,
      {{"auto", DraftWeights::kAuto},
       {"full", DraftWeights::kFull},
       {"int7", DraftWeights::kInt7}},
      "how the drafter's own matrices are kept: full, as the target's, int7, "
      "in 7-bit integers, or auto: int7 on a GPU with bfloat16");
}

absl::Status SetDraftWeights(DraftWeights kind, WeightStore& store,
                             Weights& weights) {
  const bool is_asked_for = kind == DraftWeights::kInt7;
  if (!weights.drafter && is_asked_for) {
    return absl::InvalidArgumentError(
        "--draft-weights int7: the checkpoint has no drafter (mtp.* tensors)");
  }
  const bool is_fitting =
      weights.arrays.device().activation_type() == ElementType::kBFloat16;
  if (!weights.drafter || kind == DraftWeights::kFull ||
      (kind == DraftWeights::kAuto && !is_fitting)) {
    return absl::OkStatus();
  }
  for (const WeightMatrix** matrix : OwnMatrices(*weights.drafter)) {
    weights.matrix_bytes -= store.MatrixBytes(**matrix);
    BOLE_ASSIGN_OR_RETURN(*matrix, store.QuantizeMatrix(**matrix));
    weights.matrix_bytes += store.MatrixBytes(**matrix);
  }
  return absl::OkStatus();
}

}  // namespace bole
