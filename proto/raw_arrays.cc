#include "proto/raw_arrays.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace bole {
namespace {

static_assert(std::endian::native == std::endian::little,
              "the bytes of an array are those of memory");

using RawParent = int16_t;
constexpr size_t kNodeBytes =
    sizeof(RawParent) + sizeof(int32_t) + sizeof(float);
constexpr size_t kTokenBytes = sizeof(int32_t) + sizeof(float);

// Copies an array to `at` and returns its end.
template <typename T>
char* Put(const std::vector<T>& values, char* at) {
  const size_t bytes = values.size() * sizeof(T);
  if (bytes > 0) std::memcpy(at, values.data(), bytes);  // Not from null.
  return at + bytes;
}

// The reverse: takes `count` values off the front of `bytes`.
template <typename T>
std::vector<T> Take(size_t count, std::string_view& bytes) {
  std::vector<T> values(count);
  if (count > 0) std::memcpy(values.data(), bytes.data(), count * sizeof(T));
  bytes.remove_prefix(count * sizeof(T));
  return values;
}

absl::Status CheckWhole(const char* what, size_t bytes, size_t each) {
  if (bytes % each == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, " has ", bytes, " bytes, not a multiple of ", each));
}

}  // namespace

bool EncodeRawTree(const ProposalTree& tree, std::string& bytes) {
  if (tree.size() > std::numeric_limits<RawParent>::max()) return false;
  bytes.resize(tree.size() * kNodeBytes);
  const std::vector<RawParent> parents(tree.parent.begin(), tree.parent.end());
  char* const tokens = Put(parents, bytes.data());
  Put(tree.log_rho, Put(tree.token, tokens));
  return true;
}

absl::StatusOr<ProposalTree> DecodeRawTree(std::string_view bytes) {
  BOLE_RETURN_IF_ERROR(CheckWhole("raw_proposal", bytes.size(), kNodeBytes));
  const size_t num_nodes = bytes.size() / kNodeBytes;
  ProposalTree tree;
  const auto parents = Take<RawParent>(num_nodes, bytes);
  tree.parent.assign(parents.begin(), parents.end());
  tree.token = Take<int32_t>(num_nodes, bytes);
  tree.log_rho = Take<float>(num_nodes, bytes);
  BOLE_RETURN_IF_ERROR(Validate(tree));
  return tree;
}

bool EncodeRawTokens(const std::vector<EmittedToken>& tokens,
                     std::string& bytes) {
  const auto has_top = [](const EmittedToken& token) {
    return !token.top.empty();
  };
  if (tokens.empty() || std::any_of(tokens.begin(), tokens.end(), has_top)) {
    return false;
  }
  bytes.resize(tokens.size() * kTokenBytes);
  char* at = bytes.data();
  for (const EmittedToken& token : tokens) {
    std::memcpy(at, &token.token, sizeof(int32_t));
    std::memcpy(at + sizeof(int32_t), &token.logprob, sizeof(float));
    at += kTokenBytes;
  }
  return true;
}

absl::StatusOr<std::vector<EmittedToken>> DecodeRawTokens(
    std::string_view bytes) {
  BOLE_RETURN_IF_ERROR(CheckWhole("raw_emitted", bytes.size(), kTokenBytes));
  std::vector<EmittedToken> tokens(bytes.size() / kTokenBytes);
  for (EmittedToken& token : tokens) {
    std::memcpy(&token.token, bytes.data(), sizeof(int32_t));
    std::memcpy(&token.logprob, bytes.data() + sizeof(int32_t), sizeof(float));
    bytes.remove_prefix(kTokenBytes);
    if (token.token >= 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("raw_emitted: token is ", token.token));
  }
  return tokens;
}

}  // namespace bole
