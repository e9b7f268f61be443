// The tokens that a drafter may propose, from a file in the checkpoint's
// folder.
#ifndef BOLE_WORKER_SERVICE_LOADING_DRAFT_TOKENS_H_
#define BOLE_WORKER_SERVICE_LOADING_DRAFT_TOKENS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/draft_shape.h"

namespace bole {

// In the checkpoint's folder.
inline constexpr char kDraftTokensFile[] = "draft_tokens.json";

// The fewest tokens that a list may have, so that a draft of any shape finds
// enough children for each node.
inline constexpr int kMinDraftTokens = kMaxDraftTopK;

// Parses the text of such a file,
// {"tokens": [ids, ascending], "source": "..."}.
// INVALID_ARGUMENT, naming the value: not such an object, fewer than
// kMinDraftTokens ids, an id that is not above the previous one, or one that is
// not below `num_valid_tokens`.
absl::StatusOr<std::vector<int32_t>> ParseDraftTokens(std::string_view text,
                                                      int num_valid_tokens);

// Reads such a file. NOT_FOUND if there is none; all errors start with its
// path.
absl::StatusOr<std::vector<int32_t>> LoadDraftTokens(const std::string& path,
                                                     int num_valid_tokens);

}  // namespace bole

#endif  // BOLE_WORKER_SERVICE_LOADING_DRAFT_TOKENS_H_
