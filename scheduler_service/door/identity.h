// Who asks.
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
  kGenerate,  // Texts and tokens, and what is served.
  kMetrics,
  kAdmin,  // Workers, load, and what schedulers say to each other.
};

inline constexpr std::array kScopes = {Scope::kGenerate, Scope::kMetrics,
                                       Scope::kAdmin};

// As the file of tokens writes it: "generate".
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
  // Shares what there is fairly with other tenants. Empty: nobody in
  // particular, which is a tenant like any other.
  std::string tenant;
};

// Who says to be `tenant`, which is believed: without tokens there is no proof.
// INVALID_ARGUMENT, naming the value, unless it is empty or at most
// kMaxTenantCharacters of [A-Za-z0-9._-].
absl::StatusOr<Identity> Identify(std::string_view tenant);

}  // namespace bole

#endif  // BOLE_SCHEDULER_SERVICE_DOOR_IDENTITY_H_
