#include "scheduler_service/door/identity.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/field_error.h"

namespace bole {
namespace {

bool IsAllowed(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' ||
         c == '_' || c == '-';
}

}  // namespace

const char* NameOf(Scope scope) {
  switch (scope) {
    case Scope::kGenerate:
      return "generate";
    case Scope::kMetrics:
      return "metrics";
    case Scope::kAdmin:
      return "admin";
  }
  return "";
}

std::optional<Scope> ScopeOf(std::string_view name) {
  for (const Scope scope : kScopes) {
    if (name == NameOf(scope)) return scope;
  }
  return std::nullopt;
}

absl::StatusOr<Identity> Identify(std::string_view tenant) {
  if (tenant.size() > kMaxTenantCharacters ||
      !std::all_of(tenant.begin(), tenant.end(), IsAllowed)) {
    return BadField("bole-tenant", Quoted(tenant),
                    absl::StrCat("at most ", kMaxTenantCharacters,
                                 " characters of [A-Za-z0-9._-]"));
  }
  return Identity{.tenant = std::string(tenant)};
}

}  // namespace bole
