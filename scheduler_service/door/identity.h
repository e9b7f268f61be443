// The identity of a caller.
#ifndef BOLE_SCHEDULER_SERVICE_DOOR_IDENTITY_H_
#define BOLE_SCHEDULER_SERVICE_DOOR_IDENTITY_H_

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace bole {

inline constexpr size_t kMaxTenantCharacters = 64;

// What a token may be used for.
enum class Scope {
  kGenerate,  // Generation, tokenization, models, server information.
  kMetrics,
  kAdmin,  // Workers, load, and messages between schedulers.
};

inline constexpr std::array kScopes = {Scope::kGenerate, Scope::kMetrics,
                                       Scope::kAdmin};

// The name in the file of tokens: "generate".
const char* NameOf(Scope scope);
std::optional<Scope> ScopeOf(std::string_view name);

class ScopeSet {
 public:
  void Add(Scope scope) { bits_ |= 1u << static_cast<int>(scope); }
  bool Has(Scope scope) const {
    return (bits_ >> static_cast<int>(scope) & 1) != 0;
  }

 private:
  unsigned bits_ = 0;
};

struct Identity {
  // Tenants share the workers fairly. Empty: no name was given, which is a
  // tenant like any other.
  std::string tenant;
};

// Returns a caller that claims to be `tenant`. The claim is believed, because
// without tokens there is no proof. INVALID_ARGUMENT, naming the value, unless
// it is empty or at most kMaxTenantCharacters of [A-Za-z0-9._-].
absl::StatusOr<Identity> Identify(std::string_view tenant);

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_DOOR_IDENTITY_H_
