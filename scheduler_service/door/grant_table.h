// The tokens that let callers in, as a file lists them.
//
// A line is "DIGEST TENANT SCOPES [LIMIT=N]...", its words separated by blanks:
// the SHA-256 of the token in lower-case hexadecimal digits; a tenant; scopes
// separated by commas; and limits on the tenant, which are "concurrent",
// "requests-per-minute" and "prompt-tokens-per-minute". Empty lines and those
// that begin with # are ignored. A tenant may have several tokens, with equal
// limits.
#ifndef BOLE_SCHEDULER_SERVICE_DOOR_GRANT_TABLE_H_
#define BOLE_SCHEDULER_SERVICE_DOOR_GRANT_TABLE_H_

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "scheduler_service/door/identity.h"
#include "scheduler_service/door/tenant_limits.h"

namespace bole {

inline constexpr size_t kMaxTokens = 4096;          // In a table.
inline constexpr size_t kMaxTokenCharacters = 256;  // In a token.

struct TokenGrant {
  std::string digest;
  std::string tenant;  // Not empty.
  ScopeSet scopes;     // At least one.
};

// Immutable.
class GrantTable {
 public:
  // Returns INVALID_ARGUMENT if the text is not a valid table, or has no token.
  // The error names the line, but never quotes a word that may be a token.
  static absl::StatusOr<GrantTable> Parse(std::string_view text);

  // Returns what the token grants, or null. Takes the same time for all tokens
  // of a length: all digests are compared, in 15 us for kMaxTokens.
  const TokenGrant* Find(std::string_view token) const;

  // REQUIRES: a token grants something to this tenant.
  const TenantLimits& LimitsOf(const std::string& tenant) const {
    return limits_.at(tenant);
  }
  bool HasTenant(const std::string& tenant) const {
    return limits_.contains(tenant);
  }

 private:
  absl::Status Add(const std::vector<std::string>& words);

  std::vector<TokenGrant> grants_;
  std::map<std::string, TenantLimits> limits_;  // By tenant.
};

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_DOOR_GRANT_TABLE_H_
