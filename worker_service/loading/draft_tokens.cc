#include "worker_service/loading/draft_tokens.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/json.h"
#include "common/status_macros.h"
#include "nlohmann/json.hpp"
#include "worker_service/model/mapped_file.h"

namespace bole {
namespace {

constexpr int kMaxDepth = 8;

absl::Status CheckToken(const nlohmann::json& tokens, size_t i,
                        int num_valid_tokens) {
  const nlohmann::json& token = tokens[i];
  const bool is_id =
      token.is_number_unsigned() &&
      token.get<uint64_t>() < static_cast<uint64_t>(num_valid_tokens);
  if (!is_id) {
    return absl::InvalidArgumentError(
        absl::StrCat("tokens[", i, "] is ", token.dump(),
                     ", expected an id from 0 to ", num_valid_tokens - 1));
  }
  if (i > 0 && token <= tokens[i - 1]) {
    return absl::InvalidArgumentError(
        absl::StrCat("tokens[", i, "] is ", token.dump(), " after ",
                     tokens[i - 1].dump(), ", expected ascending ids"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<int32_t>> ParseDraftTokens(std::string_view text,
                                                      int num_valid_tokens) {
  BOLE_ASSIGN_OR_RETURN(const nlohmann::json document,
                        ParseJson(text, kMaxDepth));
  if (!document.is_object() || !document.contains("tokens") ||
      !document["tokens"].is_array()) {
    return absl::InvalidArgumentError(
        "is not a JSON object with an array \"tokens\"");
  }
  const nlohmann::json& tokens = document["tokens"];
  if (tokens.size() < static_cast<size_t>(kMinDraftTokens)) {
    return absl::InvalidArgumentError(absl::StrCat("tokens has ", tokens.size(),
                                                   " ids, expected at least ",
                                                   kMinDraftTokens));
  }
  std::vector<int32_t> ids;
  ids.reserve(tokens.size());
  for (size_t i = 0; i < tokens.size(); ++i) {
    BOLE_RETURN_IF_ERROR(CheckToken(tokens, i, num_valid_tokens));
    ids.push_back(tokens[i].get<int32_t>());
  }
  return ids;
}

absl::StatusOr<std::vector<int32_t>> LoadDraftTokens(const std::string& path,
                                                     int num_valid_tokens) {
  BOLE_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  absl::StatusOr<std::vector<int32_t>> ids =
      ParseDraftTokens(file.text(), num_valid_tokens);
  if (!ids.ok()) return Annotate(ids.status(), path);
  return ids;
}

}  // namespace bole
