#include "worker_service/loading/draft_head.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "worker_service/loading/draft_tokens.h"

namespace bole {

void AddDraftHeadFlag(CommandLine& command, DraftHead& head) {
  command.AddChoice(
      "--draft-head", head,
      {{"auto", DraftHead::kAuto},
       {"full", DraftHead::kFull},
       {"listed", DraftHead::kListed}},
      absl::StrCat("tokens that are drafted: full, listed in the checkpoint's ",
                   kDraftTokensFile,
                   ", or auto: listed if there is such a file"));
}

absl::Status SetDraftHead(const std::string& directory, DraftHead head,
                          Backend& backend, LoadedModel& model) {
  const bool is_asked_for = head == DraftHead::kListed;
  if (!model.weights->drafter && is_asked_for) {
    return absl::InvalidArgumentError(
        "--draft-head listed: the checkpoint has no drafter (mtp.* tensors)");
  }
  if (!model.weights->drafter || head == DraftHead::kFull) {
    return absl::OkStatus();
  }
  if (!model.listed_tokens.empty()) {
    return RestrictDraftHead(model.listed_tokens, backend, *model.weights);
  }
  // If the number of token ids is unknown, Engine::Create() fails later.
  const int num_valid_tokens = model.num_ids.value_or(model.config.vocab_size);
  const absl::StatusOr<std::vector<int32_t>> tokens = LoadDraftTokens(
      absl::StrCat(directory, "/", kDraftTokensFile), num_valid_tokens);
  if (absl::IsNotFound(tokens.status()) && !is_asked_for) {
    return absl::OkStatus();
  }
  BOLE_RETURN_IF_ERROR(tokens.status());
  return RestrictDraftHead(*tokens, backend, *model.weights);
}

absl::Status RestrictDraftHead(std::span<const int32_t> tokens,
                               Backend& backend, Weights& weights) {
  DrafterWeights& drafter = *weights.drafter;
  drafter.head_rows.clear();
  std::vector<int32_t> rows;  // The listed rows of this rank's part.
  auto next = tokens.begin();
  int32_t first = 0;  // The first token of a rank's part.
  for (const int of_rank : weights.head_rows) {
    const auto end = std::lower_bound(next, tokens.end(), first + of_rank);
    if (std::ssize(drafter.head_rows) == backend.rank().index) {
      for (auto token = next; token != end; ++token) {
        rows.push_back(*token - first);
      }
    }
    drafter.head_rows.push_back(static_cast<int>(end - next));
    next = end;
    first += of_rank;
  }
  BOLE_ASSIGN_OR_RETURN(drafter.head,
                        backend.GatherMatrix(*weights.head, rows));
  drafter.head_token = weights.arrays.Copy(
      std::vector<int32_t>(tokens.begin(), tokens.end()), "draft tokens");
  weights.matrix_bytes += backend.MatrixBytes(*drafter.head);
  return weights.arrays.status();
}

}  // namespace bole
