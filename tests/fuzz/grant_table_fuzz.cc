// The file of tokens. What is read lets nobody in by a digest, and an error
// tells nothing that might be a token.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "common/check.h"
#include "scheduler_service/door/grant_table.h"
#include "scheduler_service/door/identity.h"
#include "scheduler_service/door/tenant_limits.h"

namespace {

constexpr size_t kDigestCharacters = 64;

// The first word of every line is or stands for a secret: none may be told that
// is long enough to be one.
void CheckTellsNothing(std::string_view text, std::string_view message) {
  constexpr size_t kShortestSecret = 32;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const size_t begin = line.find_first_not_of(" \t\r");
    if (begin == line.npos) continue;
    const std::string_view word =
        line.substr(begin, line.find_first_of(" \t\r", begin) - begin);
    BOLE_CHECK(word.size() < kShortestSecret ||
               message.find(word) == message.npos);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto table = bole::GrantTable::Parse(text);
  if (!table.ok()) {
    BOLE_CHECK(absl::IsInvalidArgument(table.status()));
    CheckTellsNothing(text, {table.status().message().data(),
                             table.status().message().size()});
    return 0;
  }
  BOLE_CHECK(table->Find("") == nullptr);
  for (size_t i = 0; i + kDigestCharacters <= size; i += kDigestCharacters) {
    BOLE_CHECK(table->Find(text.substr(i, kDigestCharacters)) == nullptr);
  }
  // The token of the files in the corpus.
  if (const bole::TokenGrant* grant = table->Find("token")) {
    BOLE_CHECK(!grant->tenant.empty());
    BOLE_CHECK(table->HasTenant(grant->tenant));
    bool has_scope = false;
    for (const bole::Scope scope : bole::kScopes) {
      has_scope = has_scope || grant->scopes.Has(scope);
    }
    BOLE_CHECK(has_scope);
    const bole::TenantLimits& limits = table->LimitsOf(grant->tenant);
    BOLE_CHECK(limits.concurrent.value_or(1) > 0);
    BOLE_CHECK(limits.requests_per_minute.value_or(1) > 0);
    BOLE_CHECK(limits.prompt_tokens_per_minute.value_or(1) > 0);
  }
  return 0;
}
