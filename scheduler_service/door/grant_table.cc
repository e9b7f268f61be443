#include "scheduler_service/door/grant_table.h"

#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/sha256.h"
#include "common/status_macros.h"

namespace bole {
namespace {

constexpr size_t kDigestCharacters = 64;

absl::string_view Absl(std::string_view text) {
  return {text.data(), text.size()};
}

bool AreEqual(const std::string& a, const std::string& b) {
  uint64_t difference = 0;
  for (size_t i = 0; i < kDigestCharacters; i += sizeof(uint64_t)) {
    uint64_t x;
    uint64_t y;
    std::memcpy(&x, a.data() + i, sizeof(x));
    std::memcpy(&y, b.data() + i, sizeof(y));
    difference |= x ^ y;
  }
  return difference == 0;
}

absl::StatusOr<ScopeSet> ParseScopes(std::string_view text) {
  ScopeSet scopes;
  for (const absl::string_view part : absl::StrSplit(Absl(text), ',')) {
    const std::optional<Scope> scope = ScopeOf({part.data(), part.size()});
    if (!scope) {
      return absl::InvalidArgumentError(
          "the third word is not of generate, metrics and admin, separated by "
          "commas");
    }
    scopes.Add(*scope);
  }
  return scopes;
}

absl::Status ParseLimit(std::string_view text, TenantLimits& limits) {
  const std::pair<std::string, std::string> parts =
      absl::StrSplit(Absl(text), absl::MaxSplits('=', 1));
  std::optional<int>* limit = nullptr;
  if (parts.first == "concurrent") limit = &limits.concurrent;
  if (parts.first == "requests-per-minute") limit = &limits.requests_per_minute;
  if (parts.first == "prompt-tokens-per-minute") {
    limit = &limits.prompt_tokens_per_minute;
  }
  int value = 0;
  if (limit == nullptr || limit->has_value() ||
      !absl::SimpleAtoi(parts.second, &value) || value < 1) {
    return absl::InvalidArgumentError(
        "a limit is not concurrent=N, requests-per-minute=N or "
        "prompt-tokens-per-minute=N, each once and above 0");
  }
  *limit = value;
  return absl::OkStatus();
}

}  // namespace

absl::Status GrantTable::Add(const std::vector<std::string>& words) {
  if (words.size() < 3) {
    return absl::InvalidArgumentError("it is not DIGEST TENANT SCOPES");
  }
  if (!IsSha256Hex(words[0])) {
    return absl::InvalidArgumentError(
        "the first word is not the SHA-256 of a token, in 64 lower-case "
        "hexadecimal digits");
  }
  // The error of Identify() would quote the word, which may be a token that was
  // put there by mistake.
  absl::StatusOr<Identity> who = Identify(words[1]);
  if (!who.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the second word is not a tenant: at most ",
                     kMaxTenantCharacters, " characters of [A-Za-z0-9._-]"));
  }
  BOLE_ASSIGN_OR_RETURN(const ScopeSet scopes, ParseScopes(words[2]));
  TenantLimits limits;
  for (size_t i = 3; i < words.size(); ++i) {
    BOLE_RETURN_IF_ERROR(ParseLimit(words[i], limits));
  }
  if (grants_.size() >= kMaxTokens) {
    return absl::InvalidArgumentError(
        absl::StrCat("there are more than ", kMaxTokens, " tokens"));
  }
  for (const TokenGrant& other : grants_) {
    if (other.digest == words[0]) {
      return absl::InvalidArgumentError("its token is there already");
    }
  }
  if (limits_.try_emplace(who->tenant, limits).first->second != limits) {
    return absl::InvalidArgumentError(
        "another token of its tenant has other limits");
  }
  grants_.push_back(
      {.digest = words[0], .tenant = std::move(who->tenant), .scopes = scopes});
  return absl::OkStatus();
}

absl::StatusOr<GrantTable> GrantTable::Parse(std::string_view text) {
  GrantTable table;
  size_t number = 0;
  for (const absl::string_view line : absl::StrSplit(Absl(text), '\n')) {
    ++number;
    if (!line.empty() && line[0] == '#') continue;
    const std::vector<std::string> words =
        absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
    if (words.empty()) continue;
    const absl::Status added = table.Add(words);
    if (!added.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("line ", number, ": ", added.message()));
    }
  }
  if (table.grants_.empty()) {
    return absl::InvalidArgumentError("there is no token");
  }
  return table;
}

const TokenGrant* GrantTable::Find(std::string_view token) const {
  if (token.empty() || token.size() > kMaxTokenCharacters) return nullptr;
  const std::string digest = Sha256Hex(token);
  const TokenGrant* found = nullptr;
  for (const TokenGrant& grant : grants_) {
    if (AreEqual(grant.digest, digest)) found = &grant;
  }
  return found;
}

}  // namespace bole
